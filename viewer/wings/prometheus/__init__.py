"""Prometheus: the metrics of one recorder for dashboards."""

from wiretape.viewer.contracts import Extra, Wing

WING = Wing(extras=(Extra("metrics", "prometheus_client", "record --metrics"),))
