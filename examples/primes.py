# SPDX-License-Identifier: Apache-2.0
"""The sieve of Eratosthenes.  Usage: constrictor run examples/primes.py [LIMIT]

The last expression is the value of the run: `--json` shows it as `result` and `result_json`.
"""
import sys


def primes(limit):
    is_prime = bytearray([1]) * (limit + 1)
    is_prime[:2] = b"\0\0"[: limit + 1]
    for n in range(2, int(limit**0.5) + 1):
        if is_prime[n]:
            is_prime[n * n :: n] = bytes(len(range(n * n, limit + 1, n)))
    return [n for n in range(limit + 1) if is_prime[n]]


limit = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
found = primes(limit)
print(f"{len(found)} primes up to {limit}; the last five:")
found[-5:]
