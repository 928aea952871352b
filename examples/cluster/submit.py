"""The wirelake command as a script for spark-submit.

spark-submit --master spark://host:7077 $(wirelake package) examples/cluster/submit.py ingest captures/ lake
"""

from wirelake.cli import main

main()
