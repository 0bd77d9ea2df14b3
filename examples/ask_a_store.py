"""Ask a store from a web page how often a word was seen, while the application goes on counting.

The page may run anywhere. `StateStoreClient` asks the instances over HTTP, and finds the one that has the key.

Run it: python examples/ask_a_store.py          and open the address that it prints
        python examples/ask_a_store.py --once   asks its own page once, and ends
"""

import sys
import tempfile
import threading
import time
from html import escape

import httpx
import uvicorn
from count_words import LINES, application
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from streams_runtime import STRING, LocalRun, NewTopic, RecordProducer, StateStoreClient, open_log

FORM = "<form>How often was <input name=word autofocus> seen? <button>Ask</button></form>"


def page(stores: StateStoreClient) -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def ask(word: str = "") -> HTMLResponse:
        if not word:
            return HTMLResponse(FORM)
        found = stores.get("counts", word.encode())
        count = 0 if found.value is None else int.from_bytes(found.value, "big")
        return HTMLResponse(f"{FORM}<p>{escape(word)}: {count} times</p>")

    return app


def main(is_once: bool) -> None:
    app = application(tempfile.mkdtemp())
    log = open_log(app.configs.bootstrap_servers)
    log.create_topics([NewTopic("lines", partitions=2), NewTopic("word-counts", partitions=2)])
    with RecordProducer(log, STRING, STRING) as lines:
        for line in LINES:
            lines.send("lines", None, line)

    with LocalRun(app, instances=2) as run:
        run.wait_until_caught_up()
        addresses = [endpoint.removeprefix("http://") for endpoint in run.endpoints]
        with StateStoreClient(addresses, application_id=app.id) as stores:
            server = uvicorn.Server(uvicorn.Config(page(stores), port=0, log_level="warning"))
            threading.Thread(target=server.run).start()
            while not server.started:
                time.sleep(0.01)
            url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            try:
                if is_once:
                    print(httpx.get(url, params={"word": "the"}).text)
                else:
                    print(f"Open {url} and ask for a word. Ctrl-C ends it.")
                    threading.Event().wait()
            except KeyboardInterrupt:
                pass
            finally:
                server.should_exit = True


if __name__ == "__main__":
    main(is_once="--once" in sys.argv)
