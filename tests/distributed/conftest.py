"""The scripts here are run by tests, in processes of their own."""

collect_ignore_glob = ["*_script.py"]
