"""External memories as they are set: tables `[memories.NAME]` of the settings."""

from pathlib import Path

from msgspec import Struct


class ExternalSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A memory outside the record, which is read when it is first asked, and never written."""

    path: Path
    """A data folder of Cuebook that no server has open, a memory that was exported, or a Parquet file of texts."""
    user: str | None = None  # of a data folder: whose memory of it
    tenant: str = "default"
    embedder: str | None = None  # of a Parquet file of texts: which made its vectors, as in the setting `embedder`

    def __post_init__(self) -> None:
        if self.path.suffix in {"", ".duckdb"} and not self.user:
            raise ValueError("`user` is missing: whose memory of the data folder it is")
