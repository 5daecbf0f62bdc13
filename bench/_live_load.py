"""``python -m bench._live_load PORT RATE``: commit on a source at a steady rate until the process is ended."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time

import pymysql
from pymysql.constants import CLIENT

_CONNECTIONS = 4
_SHARES = {"shop": 20, "logs": 55, "hr": 10, "crm": 15}
"""The share of each database in the transactions, percent."""


def _commit(port: int, rate: float, number: int) -> None:
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="loader", password="loader", client_flag=CLIENT.MULTI_STATEMENTS
    )
    chance, start = random.Random(number), time.perf_counter()
    with connection.cursor() as cursor:
        for count in itertools.count(1):
            (database,) = chance.choices(list(_SHARES), list(_SHARES.values()))
            insert = f"INSERT INTO {database}.t (a, body) VALUES ({count}, REPEAT('x', {chance.randint(80, 780)}));"
            cursor.execute(f"BEGIN; {insert} {insert} COMMIT")
            while cursor.nextset():
                pass
            wait = start + count / rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)


def main() -> None:
    port, rate = int(sys.argv[1]), int(sys.argv[2])
    threads = [
        threading.Thread(target=_commit, args=(port, rate / _CONNECTIONS, number))
        for number in range(_CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    print("committing", flush=True)


if __name__ == "__main__":
    main()
