"""What a person asks for, and what is said of it when it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError
from netdyno.plan.request import Request, duration, read_request_file, share
from netdyno.plan.stopping import MOST_ROUNDS


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2 m ", 120), ("0.5s", 0.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.0h", "-1s", "ten", "10d", "1e3", "1m30s", "s", "nan", "inf", "1.", "9" * 400],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(NetdynoError, match=r"is no duration: write 90s, 10m or 1\.5h"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "value"), [("2%", 0.02), ("0.05", 0.05), (" 0.5 % ", 0.005), ("0%", 0), ("150%", 1.5)]
)
def test_shares(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "2", "-2%", "two", "2 percent", "%", "nan", "1e3%", "٣%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(NetdynoError, match=r"is no share: write 2% or 0\.02"):
        share(text)


@pytest.mark.parametrize("target", [0.0, 0.0001, 0.6])
def test_targets_out_of_range(target: float) -> None:
    with pytest.raises(NetdynoError, match=f"--target {target}: must be between"):
        Request(target=target)


def test_a_target_brings_its_own_number_of_rounds() -> None:
    assert Request().most_rounds == 3
    assert Request(target=0.02).most_rounds == MOST_ROUNDS
    assert Request(target=0.02, rounds=10).most_rounds == 10
    with pytest.raises(NetdynoError, match="--rounds 3: must be between 6 and"):
        Request(target=0.02, rounds=3)


@pytest.mark.parametrize(
    ("axis", "value", "option"),
    [
        ("batch_size", (0,), "--batch-size 0"),
        ("batch_size", (8, -1), "--batch-size -1"),
        ("batch_size", (10**9,), "--batch-size 1000000000"),
        ("threads", (0,), "--threads 0"),
        ("threads", (10**6,), "--threads 1000000"),
        ("rounds", 0, "--rounds 0"),
        ("rounds", 10**6, "--rounds 1000000"),
        ("seed", -1, "--seed -1"),
        ("seed", 2**63, f"--seed {2**63}"),
    ],
)
def test_numbers_out_of_range(axis: str, value: object, option: str) -> None:
    with pytest.raises(NetdynoError, match=f"{option}: must be between"):
        Request(**{axis: value})


def test_no_network_is_refused() -> None:
    with pytest.raises(NetdynoError, match="--networks is empty"):
        Request(networks=())


def test_defaults_are_those_of_the_seed_and_plain_json() -> None:
    data = json.loads(json.dumps(Request().to_json(), allow_nan=False))
    assert data["networks"] == ["alexnet_owt", "googlenet"]
    assert data["batch_size"] == [32]
    assert data["rounds"] == 3
    assert data["budget_seconds"] is None


def request_file(folder: Path, text: str) -> Path:
    path = folder / "matrix.toml"
    path.write_text(text)
    return path


def test_a_file_sets_what_options_set(tmp_path: Path) -> None:
    text = """
        frameworks = ["mxnet", "jax"]
        modes = "all"
        batch_size = 8
        threads = [1, 2]
        rounds = 2
        seed = 7
        budget = "10m"
        trial_timeout = "90s"
    """
    fields = read_request_file(request_file(tmp_path, text))
    assert fields == {
        "frameworks": ("mxnet", "jax"),
        "modes": ("all",),
        "batch_size": (8,),
        "threads": (1, 2),
        "rounds": 2,
        "seed": 7,
        "budget_seconds": 600.0,
        "trial_timeout_seconds": 90.0,
    }
    assert Request(**fields).networks == Request().networks


def test_a_file_puts_a_matrix_together(tmp_path: Path) -> None:
    text = """
        precision = ["fp32", "bf16"]
        rounds = 2
        [[matrix]]
        networks = ["vgg_a", "mine.json"]
        batch_size = 64
        [[matrix]]
        networks = "resnet50"
        precision = "fp32"
    """
    request = Request(**read_request_file(request_file(tmp_path, text)))
    first, second = request.parts()
    assert first.networks == ("vgg_a", str(tmp_path / "mine.json"))
    assert (first.batch_size, first.precision, first.rounds) == ((64,), ("fp32", "bf16"), 2)
    assert (second.networks, second.batch_size) == (("resnet50",), Request().batch_size)
    assert second.precision == ("fp32",)
    data = json.loads(json.dumps(request.to_json()))
    assert data["matrix"][0]["networks"] == ["vgg_a", "mine.json"]


def test_a_part_is_held_to_what_the_whole_is() -> None:
    with pytest.raises(NetdynoError, match="--batch-size 0: must be between"):
        Request(matrix=({"batch_size": (0,)},))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rounds = \n", ["not valid TOML", "line 1"]),
        ("rounds = 1\nrounds = 2", ["not valid TOML"]),
        ("batchsize = 8", ["unknown key 'batchsize'", "did you mean batch_size"]),
        ("[rounds]\nn = 1", ["rounds must be a whole number"]),
        ("rounds = true", ["rounds must be a whole number", "True"]),
        ("batch_size = true", ["batch_size must be a whole number", "True"]),
        ("batch_size = [8, false]", ["batch_size must be a whole number", "a list of them"]),
        ("batch_size = 8.0", ["batch_size must be a whole number"]),
        ("batch_size = '8'", ["batch_size must be a whole number"]),
        ("rounds = [3]", ["rounds must be a whole number", "[3]"]),
        ("frameworks = 3", ["frameworks must be a text in quotes or a list of them"]),
        ("frameworks = [['mxnet']]", ["frameworks must be a text in quotes"]),
        ("seed = 2026-01-01", ["seed must be a whole number"]),
        ("budget = 600", ["budget must be a text in quotes"]),
        ("budget = '10 days'", ["budget: '10 days' is no duration"]),
        ("trial_timeout = '0s'", ["trial_timeout: '0s' is no duration"]),
        ("[matrix]\nnetworks = 'vgg_a'", ["matrix must be tables", "[[matrix]]"]),
        ("matrix = 3", ["matrix must be tables"]),
        ("[[matrix]]\nbatchsize = 8", ["unknown key 'batchsize'", "did you mean batch_size"]),
        ("[[matrix]]\nrounds = 8", ["unknown key 'rounds'"]),
        ("[[matrix]]\nbatch_size = '8'", ["batch_size must be a whole number"]),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: list[str]) -> None:
    path = request_file(tmp_path, text)
    with pytest.raises(NetdynoError) as caught:
        read_request_file(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NetdynoError, match=r"cannot read .*nothing\.toml: No such file"):
        read_request_file(tmp_path / "nothing.toml")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(NetdynoError, match="cannot read"):
        read_request_file(tmp_path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "matrix.toml"
    path.write_bytes(b"seed = '\xff\xfe'")
    with pytest.raises(NetdynoError, match="not valid TOML"):
        read_request_file(path)


def test_a_network_s_file_is_named_as_seen_from_the_file_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "matrix.toml"
    path.write_text('networks = ["vgg_a", "nets/mine.onnx", "/nets/other.json"]')
    networks = read_request_file(path)["networks"]
    assert networks == ("vgg_a", str(tmp_path / "nets" / "mine.onnx"), "/nets/other.json")
    # What a run folder keeps of it can be shared.
    assert Request(networks=networks).to_json()["networks"] == ("vgg_a", "mine.onnx", "other.json")
