"""OpenTelemetry: a tape as spans and metrics for a collector."""

from wiretape.viewer.contracts import Address, Extra, Wing

WING = Wing(
    sinks=(Address("otlp+", "otlp+http://HOST:PORT", f"{__name__}.address:parse"),),
    extras=(Extra("otlp", "opentelemetry.proto", "record --otlp"),),
)
