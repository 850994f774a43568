package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/kube"
)

// detach starts norn kube up in the background, and returns as soon as it answers.
func (f *runFlags) detach(out io.Writer) error {
	_, name, err := kube.Connect(false, f.kubeconfig, f.context)
	if err != nil {
		return fmt.Errorf("the cluster: %w", err)
	}
	f.fill(name)
	if there(f.socket) {
		return fmt.Errorf("a norn already answers on %s", f.socket)
	}
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		return err
	}
	path := filepath.Join(f.state, "norn-kube.log")
	messages, err := os.Create(path)
	if err != nil {
		return err
	}
	defer messages.Close()
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return a == "-d" || a == "--detach" || a == "--detach=true" })
	pid, ended, err := background(args, messages)
	if err != nil {
		return err
	}
	waits := time.After(f.lease + 30*time.Second) // for the Lease of a norn that died
	for {
		select {
		case <-ended:
			text, _ := os.ReadFile(path) // for the message only
			return fmt.Errorf("it ended at once:\n%s", text)
		case <-waits:
			return fmt.Errorf("it does not answer on %s yet, as process %d: perhaps another norn leads; its messages are in %s", f.socket, pid, path)
		case <-time.After(20 * time.Millisecond):
		}
		if there(f.socket) {
			fmt.Fprintf(out, "norn schedules the cluster %s: process %d, socket %s, messages in %s\nnorn ps --kube asks it\n", name, pid, f.socket, path)
			return nil
		}
	}
}

// there tells whether somebody answers on a socket.
func there(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
