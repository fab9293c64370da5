"""Releases from request to end: kept, claimed by one hub, run in a process of their own, taken up after a crash.

Where the config says so a release is a run of Airflow or Kubeflow instead, which is started and followed here.
"""
