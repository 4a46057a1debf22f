"""Cases that come with the text of a script: run on the server without a model, with what they reach."""

from typing import Any

from tests.support.api_client import ApiClient

SCRIPT = """\
cuebook: 1
script: mood
actions:
  - {ask: How are you?, into: mood}
  - if: "'bad' in mood"
    then:
      - {say: I am sorry., id: comfort}
  - {say: Thank you., id: thanks}
"""
CASES = """\
script: mood.yaml
cases:
  - name: a good day
    turns:
      - expect: [How are you?]
      - {say: good, expect: [Thank you.]}
  - name: a bad day
    turns:
      - expect: [How are you?]
      - {say: bad, expect: [Thank you.]}
"""


async def run(api: ApiClient, files: dict[str, str], script: str = SCRIPT, status: int = 200) -> Any:
    answer = await api.post("/api/scripts/test", json={"yamlContent": script, "files": files})
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_each_case_passes_or_says_what_differs(api: ApiClient) -> None:
    report = await run(api, {"mood.case.yaml": CASES})
    assert (report["passed"], report["failed"], report["diagnostics"]) == (1, 1, [])
    good, bad = report["results"]
    assert (good["name"], good["passed"], good["turns"], good["line"]) == ("a good day", True, 2, 3)
    failure = bad["failures"][0]
    assert (failure["turn"], failure["input"], failure["line"]) == (1, "say: bad", 10)
    assert (failure["expected"], failure["got"]) == ("Thank you.", "I am sorry.")


async def test_coverage_lists_what_no_case_reaches(api: ApiClient) -> None:
    only_good = CASES[: CASES.index("  - name: a bad day")]
    report = await run(api, {"mood.case.yaml": only_good})
    assert {each["kind"]: (each["covered"], each["total"]) for each in report["coverage"]}["branches"] == (1, 2)
    assert [(each["kind"], each["line"]) for each in report["missed"]] == [("branch", 7), ("action", 7)]
    assert (await run(api, {}))["results"] == []


async def test_case_file_with_an_error_is_reported_with_its_line(api: ApiClient) -> None:
    report = await run(
        api, {"mood.case.yaml": CASES, "other.case.yaml": "script: x\ncases:\n  - {nme: a, turns: []}\n"}
    )
    assert len(report["results"]) == 2
    assert {(each["file"], each["line"], each["severity"]) for each in report["diagnostics"]} == {
        ("other.case.yaml", 3, "error")
    }


async def test_case_on_a_server_reads_no_file(api: ApiClient) -> None:
    cases = CASES.replace("name: a good day", "name: a good day\n    model: /etc/passwd")
    (problem,) = (await run(api, {"mood.case.yaml": cases}))["diagnostics"]
    assert problem["message"] == "a case on a server cannot name a file of replies"


async def test_script_with_errors_and_too_many_cases_are_refused(api: ApiClient) -> None:
    refused = await run(api, {}, script="cuebook: 1\nscript: x\nactions:\n  - sy: x\n", status=422)
    assert refused["error"]["code"] == "SCRIPT_VALIDATION_ERROR"
    case = "  - {name: a, turns: [{expect: [How are you?]}]}\n"
    many = "script: mood.yaml\ncases:\n" + case * 501
    refused = await run(api, {"many.case.yaml": many}, status=400)
    assert "at most 500" in refused["error"]["message"]
