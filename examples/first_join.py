"""Join two tables on a key and a band: each click with the ads that its user saw in the 20 seconds before."""

import pyarrow as pa

import ivjoin

clicks = pa.table({"user": [1, 1, 2], "ts": [10, 70, 75], "page": ["home", "cart", "home"]})
views = pa.table({"user": [1, 2, 2], "ts": [5, 60, 90], "ad": ["shoes", "books", "tea"]})

stream = ivjoin.band_join(clicks, views, on="user", condition="l.ts BETWEEN r.ts AND r.ts + 20", how="left")
for row in sorted(stream.to_arrow().to_pylist(), key=lambda r: (r["user"], r["ts"])):
    print(row)
