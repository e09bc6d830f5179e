"""The server: right answers, clear refusals, and a person's view of it in a real browser."""

import concurrent.futures
import io
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from project.cli import main
from project.errors import UserError
from project.export.example import Model
from project.serving.app import Limits, application
from project.serving.command import bundle_folder
from tests.conftest import ROOT, TINY

pytestmark = pytest.mark.slow  # each needs a bundle, which takes seconds to make


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    options = ["--trainer.max_epochs", "2", "--model.network.width", "8", "--run.root", str(root)]
    assert main(["fit", "--config", "configs/digits.yaml", *options]) == 0
    assert main(["export", "--formats", "onnx", "--run.root", str(root)]) == 0
    return bundle_folder(None, str(root))


@pytest.fixture(scope="module")
def client(bundle: Path) -> TestClient:
    return TestClient(application(bundle, Limits(megabytes=0.2, megapixels=0.1)))


def png(size: tuple[int, int] = (8, 8), seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def asked(client: TestClient, content: bytes) -> tuple[int, dict]:
    answer = client.post("/predict", files={"image": ("picture.png", content)})
    return answer.status_code, answer.json()


def test_the_answer_is_the_bundles(client: TestClient, bundle: Path) -> None:
    status, answer = asked(client, png())
    assert status == 200
    assert answer == Model(bundle).answer({"image": io.BytesIO(png())})
    assert answer["prediction"] in map(str, range(10))
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_the_contract_and_the_page(client: TestClient, bundle: Path) -> None:
    assert client.get("/contract").json() == json.loads((bundle / "contract.json").read_text())
    assert client.get("/health").json()["status"] == "ok"
    assert "<form" in client.get("/").text


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"no picture at all", 415, "no picture that can be read"),
        (png()[:60], 400, "damaged"),
        (b"", 400, "no picture"),
        (png((400, 400)), 413, "400 x 400 pixels, more than 0.1 million"),
        (png((700, 700)), 413, "MB, more than 0.2 MB"),
    ],
    ids=["text", "cut off", "empty", "too many pixels", "too large"],
)
def test_a_bad_file_is_refused_in_words(
    client: TestClient, content: bytes, status: int, said: str
) -> None:
    found, answer = asked(client, content)
    assert found == status
    assert said in answer["error"]


def test_a_bad_request_is_refused_in_words(client: TestClient) -> None:
    for options, status, said in [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "no JSON"),
        ({"json": [1]}, 400, "must be a JSON object"),
        ({"json": {"image": "aGk="}}, 400, "no picture"),
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, 415, "'text/plain'"),
    ]:
        answer = client.post("/predict", **options)
        assert (answer.status_code, said in answer.json()["error"]) == (status, True)
    assert client.get("/predict").status_code == 405


def test_many_at_once_with_bad_ones_among_them(client: TestClient, bundle: Path) -> None:
    model = Model(bundle)
    contents = [png(seed=number) if number % 3 else b"rubbish" for number in range(60)]
    expected = [
        model.answer({"image": io.BytesIO(content)})["prediction"] if number % 3 else None
        for number, content in enumerate(contents)
    ]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda content: asked(client, content), contents))
    assert [answer.get("prediction") for _, answer in answers] == expected
    assert {status for status, _ in answers} == {200, 415}


@contextmanager
def served(bundle: Path) -> Iterator[str]:
    """The address of a server in a process of its own, as a user starts it."""
    command = [sys.executable, "-m", "project", "serve", str(bundle), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "http://127.0.0.1:" in said
        yield said.split(" at ")[1].split()[0]
        process.terminate()


@contextmanager
def browser_at(address: str) -> Iterator[Any]:
    """A real browser that shows a page; skips where there is none."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no chromium with its driver here")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(option)
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as page:
        page.implicitly_wait(30)
        page.get(address)
        yield page


@pytest.fixture(scope="module")
def address(bundle: Path) -> Iterator[str]:
    with served(bundle) as address:
        yield address


def test_the_command_serves(address: str) -> None:
    with urllib.request.urlopen(f"{address}/health") as answer:
        assert json.load(answer)["status"] == "ok"


def test_a_person_uploads_a_picture_in_a_browser(
    address: str, bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "digit.png").write_bytes(png(seed=4))
    (tmp_path / "words.png").write_text("no picture")
    with browser_at(address) as page:
        page.find_element("id", "image").send_keys(str(tmp_path / "digit.png"))
        page.find_element("id", "ask").click()
        said = page.find_element("id", "prediction").text
        assert said == Model(bundle).answer({"image": tmp_path / "digit.png"})["prediction"]
        page.find_element("id", "image").send_keys(str(tmp_path / "words.png"))
        page.find_element("id", "ask").click()
        page.find_element("xpath", "//*[@id='error' and contains(., 'no picture')]")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    assert main(["fit", "--config", "configs/texts.yaml", *TINY, "--run.root", str(root)]) == 0
    assert main(["export", "--formats", "onnx", "--run.root", str(root)]) == 0
    return bundle_folder(None, str(root))


def test_a_text_is_refused_or_answered(texts: Path) -> None:
    client = TestClient(application(texts, Limits(characters=50)))
    answer = client.post("/predict", json={"text": "Kowalczyk"})
    assert answer.json() == Model(texts).answer({"text": "Kowalczyk"})
    for content, status, said in [
        ({}, 400, "no text"), ({"text": " "}, 400, "no text"), ({"text": 3}, 400, "no text"),
        ({"text": "x" * 51}, 413, "51 characters, more than 50"),
    ]:  # fmt: skip
        answer = client.post("/predict", json=content)
        assert (answer.status_code, said in answer.json()["error"]) == (status, True)


def test_a_person_types_a_text_in_a_browser(texts: Path) -> None:
    with served(texts) as address, browser_at(address) as page:
        page.find_element("id", "text").send_keys("Kowalczyk")
        page.find_element("id", "ask").click()
        said = page.find_element("id", "prediction").text
        assert said == Model(texts).answer({"text": "Kowalczyk"})["prediction"]


def test_without_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="has been exported"):
        bundle_folder(None, str(tmp_path))
    assert main(["serve", str(tmp_path)]) == 2
    assert "holds no bundle" in capsys.readouterr().err
    assert main(["serve", "--prot", "1"]) == 2
    assert "--prot" in capsys.readouterr().err
