"""The files of deploy/ for other systems."""
