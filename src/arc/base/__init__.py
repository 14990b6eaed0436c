"""The ground floor: ids, paths, atomic files, locks, processes, redaction, errors. Imports nothing of arc above it."""
