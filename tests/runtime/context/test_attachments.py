"""How parts of a message that are no text are described to a model."""

import pytest

from runtime.context.messages import attachments_of, message_of, record_of


@pytest.mark.parametrize(
    ("part", "reported"),
    [
        ({"type": "text", "text": "hello"}, None),
        ({"text": "hello"}, None),
        ("hello", None),
        ({"type": "file", "file": "a.pdf", "url": "https://x/a"}, ("file", "a.pdf", {})),
        ({"type": "file", "url": "https://x/a", "path": "/a"}, ("file", "https://x/a", {})),
        ({"type": "file", "path": "/a", "id": "f1"}, ("file", "/a", {})),
        ({"type": "file", "id": "f1", "name": "a"}, ("file", "f1", {"name": "a"})),
        ({"type": "file", "name": "a"}, ("file", "a", {"name": "a"})),
        ({"type": "file", "file": {"file_id": "f", "name": "a"}}, ("file", "a", {"name": "a"})),
        ({"type": "image_url", "image_url": {"url": "https://x/a.png"}}, ("image_url", "https://x/a.png", {})),
        ({"type": "image_url", "image_url": "https://x/a.png"}, ("image_url", "https://x/a.png", {})),
        ({"type": "image", "name": "a", "image": "https://x/a"}, ("image", "https://x/a", {"name": "a"})),
        ({"type": "image_url", "name": "a", "image_url": {"url": "b"}}, ("image_url", "b", {"name": "a"})),
        ({"type": "file", "id": "f1", "file": {"path": "/a"}}, ("file", "/a", {})),
        ({"type": "image", "source": {"url": "https://x/a.png"}}, ("image", "https://x/a.png", {})),
        (
            {
                "type": "video",
                "url": "u",
                "mime_type": "video/mp4",
                "size": 3,
                "width": 4,
                "height": 5,
                "duration": 6.5,
                "x": 7,
            },
            ("video", "u", {"mime_type": "video/mp4", "size": 3, "width": 4, "height": 5, "duration": 6.5}),
        ),
        ({"type": "audio"}, ("audio", None, {})),
        ({"path": "x.png"}, ("file", "x.png", {})),
        ({"type": None, "image_url": {"url": "https://x/a.png"}}, ("file", "https://x/a.png", {})),
        ({}, None),
        ({"type": "image_url", "image_url": {"url": "data:" + "A" * 10_000}}, ("image_url", "data:" + "A" * 495, {})),
    ],
)
def test_a_part_is_described_by_its_type_place_and_details(part, reported) -> None:
    message = message_of({"role": "user", "content": [part]}, 1)
    expected = () if reported is None else (dict(zip(("type", "ref", "meta"), reported, strict=True)),)
    assert attachments_of(message) == expected


def test_the_content_of_parts_is_their_text() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "file", "path": "/a"}, "two"]
    message = message_of({"role": "user", "content": parts}, 1)
    assert message.content == "one\ntwo"
    assert message_of(record_of(message), 1) == message


def test_media_are_the_paths_of_pictures() -> None:
    made = message_of({"role": "user", "content": "look", "media": ["/a.png", "", 3, "/b.png"]}, 1)
    assert made.content == "look"
    assert attachments_of(made) == tuple({"type": "image", "ref": ref, "meta": {}} for ref in ("/a.png", "/b.png"))
    assert attachments_of(message_of({"role": "user", "content": "look", "media": "/a.png"}, 1)) == ()


def test_a_message_without_parts_has_nothing_attached() -> None:
    assert attachments_of(message_of({"role": "user", "content": "a"}, 1)) == ()
    assert attachments_of(message_of({"role": "user", "content": "a", "metadata": {"parts": "b"}}, 1)) == ()
