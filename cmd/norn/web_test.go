package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// norn web prints a link, serves the page there as long as it runs, and asks Norn in the
// name of its user. The browser that it opens finds the link in a file of its own, not in
// its arguments, which every user of the machine can read.
func TestWeb(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the browser is opened by xdg-open, as on Linux")
	}
	bin, told := t.TempDir(), filepath.Join(t.TempDir(), "told")
	script := "#!/bin/sh\nstat -c %a \"$1\" > " + told + "\ncat \"$1\" >> " + told + "\necho \"arguments: $*\" >> " + told + "\nmv " + told + " " + told + ".whole\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	cmd := shellOf(&fake{}, "DISPLAY=:0").webCommand()
	out, write := io.Pipe()
	cmd.SetOut(write)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, token, _ := strings.Cut(strings.TrimSpace(link), "#")
	ask := func(path string) (int, string) {
		a, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(text)
	}
	if code, text := ask(""); code != 200 || text != "/ of norn" {
		t.Errorf("the page is %d %q", code, text)
	}
	if code, text := ask("v1/jobs"); code != 401 || !strings.Contains(text, "was not let in") {
		t.Errorf("jobs are told to everybody: %d %q", code, text)
	}
	var text []byte
	for deadline := time.Now().Add(20 * time.Second); text == nil; time.Sleep(5 * time.Millisecond) {
		if text, err = os.ReadFile(told + ".whole"); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mode, rest, _ := strings.Cut(string(text), "\n")
	file, arguments, _ := strings.Cut(rest, "arguments: ")
	if mode != "600" || !strings.Contains(file, address+"#"+token) || strings.Contains(arguments, token) || token == "" {
		t.Errorf("the browser was told %s", text)
	}
	if path := strings.TrimSpace(arguments); path == "" {
		t.Error("no file was opened")
	} else if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file with the link is left behind: %v", err)
	}
}
