"""Draw the amount that each customer spent, from the pipeline's table.

Run it with ``python chart.py [TABLE_FOLDER [PICTURE]]``.
"""

import sys

import matplotlib.pyplot as plt
import pyarrow.parquet as pq

table = sys.argv[1] if len(sys.argv) > 1 else "spark-warehouse/spent"
picture = sys.argv[2] if len(sys.argv) > 2 else "spent.png"

spent = pq.read_table(table).sort_by("customer").to_pydict()
figure, axes = plt.subplots(figsize=(6, 3))
axes.bar(spent["customer"], spent["spent"])
axes.set_title("Spent by customer")
figure.tight_layout()
figure.savefig(picture)
amounts = zip(spent["customer"], spent["spent"], strict=True)
print(f"{picture}: {', '.join(f'{customer} {amount}' for customer, amount in amounts)}")
