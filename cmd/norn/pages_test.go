package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// A block is what a page of docs tells its reader to type, with the mark above it.
type block struct {
	page, mark, text string
	line             int
}

// marks say how the commands of a block are tried.
var marks = map[string]bool{
	"run":        true, // by TestPages, in an empty folder
	"run: clone": true, // by TestPages, in a clone
	"run: live":  true, // by TestPages, against a daemon of their own
	"shown":      true, // nowhere: they name files, jobs or clusters of the reader
}

// blocks are the marked and unmarked blocks of commands of the pages, by page.
func blocks(t *testing.T) []block {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	mark := regexp.MustCompile(`^<!-- (.*) -->$`)
	var all []block
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i := 0; i < len(lines); i++ {
			if lines[i] != "```sh" {
				continue
			}
			b := block{page: filepath.Base(page), line: i + 1}
			if m := mark.FindStringSubmatch(lines[max(i-1, 0)]); m != nil {
				b.mark = m[1]
			}
			end := i + slices.Index(lines[i:], "```")
			b.text = strings.Join(lines[i+1:end], "\n") + "\n"
			all, i = append(all, b), end
		}
	}
	return all
}

// TestMarks: each block of commands says how it is tried.
func TestMarks(t *testing.T) {
	all := blocks(t)
	if len(all) < 20 {
		t.Errorf("%d blocks were found: is the pattern still right?", len(all))
	}
	for _, b := range all {
		if !marks[b.mark] && !strings.HasPrefix(b.mark, "command: ") {
			t.Errorf("%s:%d: the commands have no mark that says how they are tried, or %q", b.page, b.line, b.mark)
		}
	}
}

// TestPages types the commands of the pages word for word, those of a page one after the
// other in one shell. None may fail.
func TestPages(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	bin := pathOfPages(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	caches := []string{"GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE")} // another home must not move them
	scripts := make(map[[2]string]*strings.Builder)
	var order [][2]string
	for _, b := range blocks(t) {
		if !strings.HasPrefix(b.mark, "run") {
			continue
		}
		key := [2]string{b.page, b.mark}
		if scripts[key] == nil {
			scripts[key], order = new(strings.Builder), append(order, key)
		}
		fmt.Fprintf(scripts[key], "echo '# %s:%d' >&2\n%s", b.page, b.line, b.text)
	}
	if len(order) < 3 {
		t.Errorf("pages %v have commands that are tried", order)
	}
	for _, key := range order {
		t.Run(strings.ReplaceAll(strings.Join(key[:], "/"), " ", ""), func(t *testing.T) {
			home := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", scripts[key].String())
			cmd.Dir = home
			if key[1] == "run: clone" {
				cmd.Dir = root
			}
			cmd.Env = append(append(os.Environ(), caches...), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "NORN_SERVER="+filepath.Join(home, "norn.sock"))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
			if key[1] == "run: live" {
				down := exec.Command("norn", "down") // where the page did not come to it
				down.Path, down.Env = filepath.Join(bin, "norn"), cmd.Env
				_ = down.Run()
			}
		})
	}
}

// pathOfPages is a folder with the norn that pages call. For root, norn up would serve the
// whole machine: this one keeps to a folder below HOME, and is otherwise norn itself.
func pathOfPages(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	real := filepath.Join(t.TempDir(), "norn")
	if out, err := exec.Command("go", "build", "-o", real, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wrapper := "#!/bin/sh\ncase $1 in up) set -- \"$@\" --state \"$HOME/state\" --socket \"$NORN_SERVER\" ;; esac\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "norn"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

// goEnv is where Go has something.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
