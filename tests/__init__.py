"""Tests of arc; folders mirror the rooms."""
