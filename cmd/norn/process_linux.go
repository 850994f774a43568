package main

import (
	"bytes"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/runner"
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
	ulimits = map[string]string{}
	for _, name := range api.ULimitNames() {
		var l unix.Rlimit
		pid := 0
		if name == "nofile" {
			pid = os.Getppid()
		}
		if resource, ok := runner.Resource(name); ok && unix.Prlimit(pid, resource, nil, &l) == nil {
			ulimits[name] = api.FormatULimit(l.Cur, l.Max)
		}
	}
	return umask, ulimits
}
