//go:build !linux

package main

// ofProcess is not known here: jobs have the mask and the limits of the daemon.
func ofProcess() (umask string, ulimits map[string]string) { return "", nil }
