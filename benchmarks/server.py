"""A static service on the loopback: every task's metrics are the same bytes, a job's details carry its own id."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.inputs import details_body, metrics_body, objects_body

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONF = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    open_file_cache max=16 inactive=600s;
    tcp_nodelay on;
    default_type application/json;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location ~ ^/v2/[^/]+/training-jobs/[^/]+/metrics/[^/]+$ {{ alias {folder}/metrics.json; }}
        location ~ ^/v2/[^/]+/training-jobs/([^/]+)$ {{ return 200 '{details}'; }}
        location ~ ^/api/v1/jobs/[^/]+/metrics$ {{ alias {folder}/objects.json; }}
    }}
}}
"""
_PATIENCE_S = 10.0


def find_nginx() -> str | None:
    """Give the path of the nginx binary, or None."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")


@contextmanager
def serve(points: int, tasks: int, *, nginx: str | None) -> Iterator[str]:
    """Serve answers of ``points`` values a metric and jobs of ``tasks`` tasks, from a process of its own.

    Args:
        points: Values of each of the six metrics.
        tasks: Tasks of every job.
        nginx: Its path; None serves with aiohttp.web instead, which may be what limits the faster clients.

    Yields:
        The base URL.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="metricsbridge-benchmark-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's worker may run as another user
        (folder / "metrics.json").write_bytes(metrics_body(points))
        (folder / "objects.json").write_bytes(objects_body(points))
        if nginx is None:
            command = [sys.executable, "-m", "benchmarks.server", str(port), str(points), str(tasks)]
        else:
            details = details_body("$1", tasks, points)
            (folder / "nginx.conf").write_text(_CONF.format(folder=folder, port=port, details=details), "utf-8")
            command = [nginx, "-p", name, "-e", f"{name}/error.log", "-c", f"{name}/nginx.conf"]
        process = subprocess.Popen(command)
        try:
            _wait(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the server did not start (exit code {process.poll()})")


def _serve_with_aiohttp(port: int, points: int, tasks: int) -> None:
    from aiohttp import web

    metrics, objects = metrics_body(points), objects_body(points)

    async def show_metrics(request: web.Request) -> web.Response:
        return web.Response(body=metrics, content_type="application/json")

    async def get_job_metrics(request: web.Request) -> web.Response:
        return web.Response(body=objects, content_type="application/json")

    async def show_job(request: web.Request) -> web.Response:
        return web.Response(
            text=details_body(request.match_info["job"], tasks, points), content_type="application/json"
        )

    app = web.Application()
    app.router.add_get("/v2/{project}/training-jobs/{job}/metrics/{task}", show_metrics)
    app.router.add_get("/v2/{project}/training-jobs/{job}", show_job)
    app.router.add_get("/api/v1/jobs/{job}/metrics", get_job_metrics)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None, keepalive_timeout=600)


if __name__ == "__main__":
    _serve_with_aiohttp(*map(int, sys.argv[1:]))
