"""A Grafana dashboard and Prometheus alert rules over what engines measure, as files to copy.

`alerts.yml` is named under `rule_files` of Prometheus; `dashboard.json` is imported into Grafana, or provisioned.
"""
