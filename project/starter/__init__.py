"""A project of one's own, made from this repository, and what changes here later brought to it.

This folder and all else that is about making projects stay behind. A project has only
`tools/update.py`, which fetches a newer version of this repository and lets it do the merge.
"""
