"""URLs that files are kept at: a folder, and a server that speaks S3."""

import uuid

import pytest


@pytest.fixture
def server(monkeypatch):
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    place = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    for name, value in ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} | place).items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    bucket = f"bucket-{uuid.uuid4()}"
    s3fs.S3FileSystem().mkdir(bucket)
    yield f"s3://{bucket}/folder"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(params=["file", pytest.param("s3", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")])])
def url(request, tmp_path):
    return f"file://{tmp_path}/remote" if request.param == "file" else request.getfixturevalue("server")
