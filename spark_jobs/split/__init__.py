"""The split's parts: who gets what, the plan of each range, where it goes, writing, the manifest, publishing."""
