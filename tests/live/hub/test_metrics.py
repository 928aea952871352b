from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.request import urlopen

from tests.live.live import run
from tests.waiting import until
from wirelake.live.hub.hub import Hub, read_settings
from wirelake.live.hub.metrics import StoreMeter
from wirelake.live.storage.database import StorageError

TABLES = {
    "casual": {"tcp": "127.0.0.1:0", "storage": "store.db", "queues": [{"name": "q"}]},
    "metrics": {"listen": "127.0.0.1:0"},
}


def test_the_metrics_tell_what_stores_hold_and_what_they_did(tmp_path: Path) -> None:
    async def main() -> None:
        async with Hub(read_settings(TABLES, "test", tmp_path)) as hub, hub.participant("casual") as client:
            for number in range(3):
                await client.enqueue("q", number)
            meter = hub.meters[0]
            await until(lambda: meter.families)
            meter.families = list(await asyncio.to_thread(meter._read))
            address = f"http://{hub.listening['metrics']}/metrics"
            text = (await asyncio.to_thread(lambda: urlopen(address).read())).decode()
            lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            assert lines['wirelake_queue_messages{queue="q",state="ready"}'] == "3.0"
            assert lines['wirelake_queue_messages{queue="q.error",state="ready"}'] == "0.0"
            assert float(lines['wirelake_queue_oldest_seconds{queue="q"}']) > 0
            assert lines['wirelake_branches{state="prepared"}'] == "0.0"
            assert float(lines['wirelake_store_syncs_total{protocol="casual"}']) >= 3
            assert float(lines['wirelake_store_requests_total{protocol="casual"}']) >= 4
            assert float(lines['wirelake_store_group_size{protocol="casual"}']) >= 1

    run(main)


def test_a_store_that_cannot_be_read_has_no_figures() -> None:
    calls = 0

    def read() -> list[object]:
        nonlocal calls
        calls += 1
        raise StorageError("gone")

    async def main() -> None:
        meter = StoreMeter(read)  # type: ignore[arg-type]
        watching = asyncio.create_task(meter.watch())
        await until(lambda: calls)
        assert meter.families == []
        watching.cancel()

    run(main)
