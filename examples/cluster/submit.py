"""The wirelake command in a form that spark-submit takes.

spark-submit --master spark://host:7077 $(wirelake package) examples/cluster/submit.py ingest captures/ lake
"""

from wirelake.cli import main

main()
