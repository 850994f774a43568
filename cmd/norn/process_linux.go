package main

import (
	"bytes"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
)

// ofProcess is the mask of rights and the limits of the shell that this program was
// called in. That of open files is read of the shell itself, as Go raises it.
func ofProcess() (umask string, ulimits map[string]string) {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range bytes.Lines(status) {
			if text, ok := strings.CutPrefix(string(line), "Umask:"); ok { // since Linux 4.7
				umask = strings.TrimSpace(text)
			}
		}
	}
	of := map[string]int{
		"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
		"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
	}
	ulimits = map[string]string{}
	for _, name := range api.ULimitNames() {
		var l unix.Rlimit
		pid := 0
		if name == "nofile" {
			pid = os.Getppid()
		}
		if unix.Prlimit(pid, of[name], nil, &l) == nil {
			ulimits[name] = api.FormatULimit(l.Cur, l.Max)
		}
	}
	return umask, ulimits
}
