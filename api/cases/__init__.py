"""Tests of scripts: conversations that must go as written, what they cover, and random walks that look for more."""
