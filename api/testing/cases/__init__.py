"""Tests of scripts: cases with expected messages, their coverage, and random walks that search for failures."""
