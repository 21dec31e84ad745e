"""The server answers its own page and nobody else; every way around that is tried."""

import io
import json
import os
import socket
import struct
import subprocess
import sys
import zlib
from contextlib import contextmanager
from dataclasses import asdict, replace
from urllib.parse import quote

import numpy as np
import pytest
import torch
from explore.made_runs import write_looked_run, write_model, write_study
from fastapi.testclient import TestClient
from PIL import Image
from safetensors.torch import save_model

import nearsight as ns
from nearsight.core import UserError
from nearsight.explore.server import uploads
from nearsight.explore.server.guard import HEADERS, is_ours
from nearsight.explore.server.served_folders import ServedFolders, run_key
from nearsight.explore.server.start import serve_folders
from nearsight.explore.server.web_app import create_app
from nearsight.measure.readouts import capture_examples
from nearsight.models.load import create_model
from nearsight.protocol import preset
from nearsight.runs import Examples
from nearsight.runs.records import EXAMPLES_FILE

TOKEN = "the-token-of-the-page"
HOST = "127.0.0.1:8000"


def write_trained(folder):
    """A run with weights and examples; 3x5 patches after a class token."""
    write_looked_run(folder)
    protocol = preset("baseline", "shapes")
    settings = replace(protocol.model, name="mu_vit", patch_size=4)
    protocol = replace(protocol, model=settings)
    record = json.loads((folder / "run.json").read_text())
    record["protocol"] = asdict(protocol)
    record["model"] |= {"name": "mu_vit", "num_classes": 7}
    record["data"] |= {"image_size": [12, 20], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    (folder / "run.json").write_text(json.dumps(record))
    torch.manual_seed(11)
    model = create_model("mu", 7, image_size=(12, 20), patch_size=4)
    save_model(model, folder / "weights.safetensors")
    pixels = [np.zeros((12, 20, 3), np.uint8)]
    EXAMPLES_FILE.write(
        folder, capture_examples(model, torch.zeros(1, 3, 12, 20), pixels, ["black"]).contents()
    )
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("served") / "runs"
    write_trained(root / "trained")
    write_looked_run(root / "plain", "baseline+cutmix", 1)
    write_model(root / "model")
    write_study(root / "study")
    return root


def client_of(root, host="127.0.0.1", **options):
    app = create_app(ServedFolders([root]), host, TOKEN)
    options = {"base_url": f"http://{HOST}", "raise_server_exceptions": False} | options
    return TestClient(app, **options)


@pytest.fixture(scope="module")
def client(root):
    with client_of(root) as client:
        yield client


def png(size=(40, 30), seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def send(client, name="runs/trained", content=None, **headers):
    headers = {"x-nearsight-token": TOKEN} | headers
    return client.post(
        f"/api/runs/{run_key(name)}/images", content=png() if content is None else content,
        headers={key: value for key, value in headers.items() if value is not None},
    )  # fmt: skip


@pytest.mark.slow
def test_the_tables_are_those_of_the_folder(client):
    found = client.get("/api/contents").json()
    names = [run["name"] for run in found["runs"]]
    assert names == ["runs/model", "runs/plain", "runs/study/cells/0000000000000000",
                     "runs/study/cells/0000000000000001", "runs/trained"]  # fmt: skip
    assert found["studies"][0]["question"] == "Does it work?"
    assert found["runs"][1]["values"]["accuracy"][0] == pytest.approx(0.71)


def test_a_run_is_asked_for_by_its_key(client):
    found = client.get(f"/api/runs/{run_key('runs/plain')}").json()
    assert found["name"] == "runs/plain"
    assert [look["epoch"] for look in found["looks"]] == [0, 2, 4]
    assert "nearsight measure" in found["note"]
    assert client.get(f"/api/runs/{'0' * 16}").status_code == 404


@pytest.mark.slow
def test_an_image_of_ones_own_is_shown_to_the_model(client):
    answer = send(client)
    assert answer.status_code == 200
    found = Examples.of_contents(answer.json())
    (layer, _), (at, _) = found.images[0].layers, found.layers
    assert (at.rows, at.cols) == (3, 5)
    torch.manual_seed(11)
    model = create_model("mu", 7, image_size=(12, 20), patch_size=4).eval()
    with Image.open(io.BytesIO(png())) as picture:
        small = picture.resize((20, 15), Image.Resampling.BICUBIC).crop((0, 2, 20, 14))
    pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)[None] / 255
    mean, std = (torch.tensor(x).reshape(3, 1, 1) for x in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
    with torch.no_grad(), ns.capture_attention(model) as maps:
        model((pixels - mean) / std)
    exact = maps[0][0].numpy()
    assert np.all(np.abs(layer.weights(at) - exact) <= exact.max(-1, keepdims=True) / 254)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example:8000",
     "", "127.0.0.1@evil.example", "10.0.0.7:8000", "[::2]:8000", "127.0.0.1:8000:9"],
)  # fmt: skip
def test_other_hosts_are_refused(client, host):
    for path in ("/", "/api/contents", "/explore.js"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert "runs" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "localhost", "[::1]:8000"])
def test_this_machine_is_answered(client, host):
    assert client.get("/api/contents", headers={"host": host}).status_code == 200


def test_a_host_that_was_asked_for_is_answered_and_names_that_could_point_anywhere_are_not():
    assert is_ours("192.168.1.5:8000", "192.168.1.5")
    assert is_ours("192.168.1.5:8000", "0.0.0.0")
    assert is_ours(f"{socket.gethostname()}:8000", "0.0.0.0")
    assert not is_ours("evil.example:8000", "0.0.0.0")
    assert not is_ours("192.168.1.6:8000", "192.168.1.5")


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x"])
def test_nothing_is_done_without_the_token_of_the_page(client, token):
    answer = send(client, **{"x-nearsight-token": token})
    assert answer.status_code == 403


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_another_page_cannot_send_even_with_the_token(client, origin):
    assert send(client, origin=origin).status_code == 403
    assert send(client, origin=f"http://{HOST}").status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_need_the_token_and_then_do_nothing(client, method):
    assert client.request(method, "/api/contents").status_code == 403
    allowed = client.request(method, "/api/contents", headers={"x-nearsight-token": TOKEN})
    assert allowed.status_code == 405


PATHS = [
    "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/api/runs/../../secret.txt",
    "/api/runs/..%2f..%2fsecret.txt", "/api/runs/%2fetc%2fpasswd", "/etc/passwd",
    "//etc/passwd", "/explore.js/../../secret.txt", "/api/runs/runs%2ftrained",
    "/api/runs/trained", "/api/runs/%00", "/static/../secret.txt", "/C:/secret.txt",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_the_folders(root, path):
    (root.parent / "secret.txt").write_text("a secret")
    with client_of(root) as client:
        answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert "a secret" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.slow
def test_links_that_lead_out_are_passed_over(tmp_path):
    outside = write_trained(tmp_path / "outside" / "secret-run")
    root = tmp_path / "runs"
    write_looked_run(root / "inside")
    (root / "whole").symlink_to(outside)
    (root / "file").mkdir()
    (root / "file" / "run.json").symlink_to(outside / "run.json")
    write_looked_run(root / "part")
    (root / "part" / "measure.json").unlink()
    (root / "part" / "measure.json").symlink_to(outside / "measure.json")
    write_trained(root / "weights")
    (root / "weights" / "weights.safetensors").unlink()
    (root / "weights" / "weights.safetensors").symlink_to(outside / "weights.safetensors")
    (root / "circle").symlink_to(root / "circle")
    with client_of(root) as client:
        names = [run["name"] for run in client.get("/api/contents").json()["runs"]]
        assert names == ["runs/inside", "runs/weights"]
        for name in ("runs/whole", "runs/file", "runs/part"):
            assert client.get(f"/api/runs/{run_key(name)}").status_code == 404
        answer = send(client, "runs/weights")
        assert answer.status_code == 409
        assert "weights" in answer.text


def test_a_folder_inside_may_be_linked_from_inside(tmp_path):
    root = tmp_path / "runs"
    write_looked_run(root / "real")
    (root / "linked").mkdir()
    for name in ("run.json", "measure.json", "train.jsonl"):
        (root / "linked" / name).symlink_to(root / "real" / name)
    with client_of(root) as client:
        assert len(client.get("/api/contents").json()["runs"]) == 2


def test_data_that_a_record_names_are_not_read_from_a_folder(tmp_path, root):
    pictures = tmp_path / "pictures" / "test" / "a"
    pictures.mkdir(parents=True)
    (pictures / "x.png").write_bytes(png((20, 12)))
    folder = write_trained(tmp_path / "runs" / "r")
    record = json.loads((folder / "run.json").read_text())
    (folder / "examples.json").unlink()
    record["protocol"]["data"]["name"] = f"folder:{tmp_path / 'pictures'}"
    (folder / "run.json").write_text(json.dumps(record))
    with client_of(tmp_path / "runs") as client:
        found = client.get(f"/api/runs/{run_key('runs/r')}").json()
    assert found["examples"] is None


def test_a_model_that_would_be_looked_for_on_a_hub_is_refused(tmp_path):
    folder = write_trained(tmp_path / "runs" / "r")
    record = json.loads((folder / "run.json").read_text())
    record["model"]["name"] = "hf/evil/model"
    (folder / "run.json").write_text(json.dumps(record))
    with client_of(tmp_path / "runs") as client:
        answer = send(client, "runs/r")
    assert answer.status_code == 409
    assert "hub" in answer.json()["detail"]


@pytest.mark.slow
def test_test_images_of_a_known_data_set_stand_in_for_examples(tmp_path):
    from nearsight.data.sets import load_dataset

    folder = write_trained(tmp_path / "runs" / "r")
    (folder / "examples.json").unlink()
    library = ServedFolders([tmp_path / "runs"], tmp_path / "data")
    found = library.model(run_key("runs/r"))
    load_dataset(preset("baseline", "shapes").data, tmp_path / "data")
    again = library.model(run_key("runs/r"))
    assert (len(found["examples"]["images"]), len(again["examples"]["images"])) == (4, 4)
    assert found["examples"]["images"][0]["name"].startswith("test ")
    assert found["numbers"]["num_images"] == 11  # those of measure.json


class Boom:
    def __reduce__(self):
        return (os.mkdir, (os.environ["BOOM"],))


def test_a_pickle_in_place_of_weights_is_not_run(tmp_path, monkeypatch):
    import pickle

    monkeypatch.setenv("BOOM", str(tmp_path / "boom"))
    folder = write_trained(tmp_path / "runs" / "r")
    (folder / "weights.safetensors").write_bytes(pickle.dumps(Boom()))
    torch.save({"x": torch.zeros(1), "y": Boom()}, folder / "weights.pth")
    with client_of(tmp_path / "runs") as client:
        answer = send(client, "runs/r")
    assert answer.status_code == 409
    assert "safetensors" in answer.json()["detail"]
    assert not (tmp_path / "boom").exists()


def bomb(width, height):
    """A PNG of a few bytes that says it has very many pixels."""

    def chunk(kind, content):
        whole = kind + content
        return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 409),
        (b"not an image", 409),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", 409),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 409),
        (png()[:100], 409),
        (bomb(50_000, 50_000), 413),
        (bomb(10_000, 10_000), 413),
        (b"GIF89a" + b"\0" * 50, 409),
    ],
    ids=["empty", "text", "svg", "postscript", "cut off", "bomb", "large", "gif"],
)
def test_files_that_are_no_decent_image_are_refused(client, content, status):
    answer = send(client, content=content)
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)


def test_an_upload_stops_when_it_is_too_large(client, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BYTES", 1000)
    answer = send(client, content=b"x" * 1001)
    assert answer.status_code == 413

    def endless():  # without a length of the whole
        for _ in range(10_000):
            yield b"x" * 100

    assert send(client, content=endless()).status_code == 413


def test_every_answer_has_strict_headers(client):
    for path in ("/", "/explore.js", "/explore.css", "/api/contents", "/nowhere"):
        headers = client.get(path).headers
        for name, value in HEADERS.items():
            assert headers[name] == value
    assert "unsafe" not in HEADERS["content-security-policy"]
    assert HEADERS["content-security-policy"].startswith("default-src 'none'")


def test_there_is_no_schema_and_no_documentation_on_the_way(client):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(path).status_code == 404


def test_the_token_is_in_the_page_and_nowhere_else(client):
    assert TOKEN in client.get("/").text
    for path in ("/explore.js", "/api/contents", f"/api/runs/{run_key('runs/plain')}"):
        assert TOKEN not in client.get(path).text


def test_damaged_runs_are_said_to_be_damaged(tmp_path):
    root = tmp_path / "runs"
    contents = {
        "a": '{"schema_version": 1}', "b": "[1, 2", "c": '{"schema_version": 99}',
        "d": '{"schema_version": 1, "model": {"name": 3}, "status": [], "protocol": 7, "seed": 0}',
        "e": "null", "f": '{"schema_version": 1, "model": {"name": "x"}, "status": "finished",'
        ' "protocol": {"name": "p"}, "seed": "seven", "result": {"test_accuracy": "high"}}',
    }  # fmt: skip
    for name, text in contents.items():
        (root / name).mkdir(parents=True)
        (root / name / "run.json").write_text(text)
        (root / name / "measure.json").write_text('{"schema_version": 2, "layers": 4}')
        (root / name / "train.jsonl").write_text('{"epoch": 1, "attention": 3}\n')
        (root / name / "examples.json").write_text('{"schema_version": 1, "layers": "x"}')
    (root / "a" / "study.json").write_text('{"schema_version": 1, "cells": 3}')
    with client_of(root) as client:
        found = client.get("/api/contents")
        assert found.status_code == 200
        assert [run["status"] for run in found.json()["runs"]].count("damaged") >= 4
        assert found.json()["studies"][0]["note"]
        for name in contents:
            assert client.get(f"/api/runs/{run_key(f'runs/{name}')}").status_code in (200, 409)
            assert send(client, f"runs/{name}").status_code == 409


@pytest.mark.slow
def test_any_request_gets_an_answer_that_is_no_500(root):
    """schemathesis sends what the schema allows and what it does not."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    library = ServedFolders([root])
    app = create_app(library, "127.0.0.1", TOKEN)
    schema = schemathesis.openapi.from_dict(app.openapi())
    keys = [run_key(run["name"]) for run in library.contents()["runs"]]
    statuses = set()
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:

        def answered(case):
            operation = case.operation
            key = (case.path_parameters or {}).get("key", "")
            for part in (keys[len(str(key)) % len(keys)], quote(str(key), safe="")):
                body = case.body if isinstance(case.body, bytes) else str(case.body).encode()
                answer = client.request(
                    operation.method.upper(), operation.path.replace("{key}", part),
                    content=body if operation.method == "post" else None,
                    headers={"x-nearsight-token": TOKEN},
                )  # fmt: skip
                statuses.add(answer.status_code)
                assert answer.status_code < 500

        for result in schema.get_all_operations():
            operation = result.ok()
            many = settings(
                max_examples=40, deadline=None, phases=[Phase.generate], database=None,
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            many(given(case=operation.as_strategy())(answered))()
    assert 200 in statuses


@contextmanager
def serving(root):
    """The command itself, in a process of its own; yields its address."""
    words = [sys.executable, "-m", "nearsight", "explore", "--serve", str(root), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


def test_the_page_of_the_server_shows_runs_and_takes_a_dropped_image(root, browser, tmp_path):
    (tmp_path / "mine.png").write_bytes(png((64, 48)))
    with serving(root) as address:
        assert address.startswith("http://127.0.0.1:")
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        told, asked = [], []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        row = page.locator("table.runs tbody tr", has_text="runs/trained")
        row.get_by_role("button", name="open").click()
        page.wait_for_selector("text=Layer 1, head 1")
        before = page.locator(".images button").count()
        content = list((tmp_path / "mine.png").read_bytes())
        page.evaluate(
            """([bytes]) => {
              const files = new DataTransfer();
              files.items.add(new File([new Uint8Array(bytes)], '<b>mine</b>.png'));
              document.querySelector('#picture').dispatchEvent(
                new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));
            }""",
            [content],
        )
        page.get_by_alt_text(f"Image {before + 1}: <b>mine</b>.png").wait_for()
        assert page.locator(".file").inner_text() == "<b>mine</b>.png"
        assert page.locator(".images button").count() == before + 1
        assert all(url.startswith((address, "data:", "blob:")) for url in asked)
        assert told == []
        context.close()


def test_a_taken_port_and_a_missing_folder_are_said_in_words(root, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=rf"\b{port}\b.*127\.0\.0\.1.*--port"):
            serve_folders([root], port=port)
    with pytest.raises(UserError, match=r"/nowhere\b"):
        serve_folders([tmp_path / "nowhere"])
