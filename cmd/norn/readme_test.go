package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var runs = regexp.MustCompile(`(?s)<!-- command: run -->\n` + "```sh\ngo run ./cmd/norn ([^\n]*)\n```" + `.*?` + "```\n([^\n]*\n\npolicy .*?)```")

// README.md shows what its first command prints.
func TestReadmeTable(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := runs.FindStringSubmatch(string(readme))
	if m == nil {
		t.Fatal("README.md shows no first command, or no table behind it")
	}
	args := strings.Fields(m[1])
	for i := range args {
		if args[i] == "--out" && i+1 < len(args) {
			args[i+1] = t.TempDir()
		}
	}
	out, _ := works(t, args...)
	if out != m[2] && runtime.GOARCH == "amd64" { // floats may round differently elsewhere
		t.Errorf("norn %s prints\n%s\nREADME.md shows\n%s", m[1], out, m[2])
	}
}

// The history that README.md shows to be written by hand can be read.
func TestReadmeCSV(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```csv\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("README.md shows no CSV")
	}
	out, _ := works(t, "sim", file(t, "jobs.csv", text), "--cluster", "1x8", "--policy", "fifo")
	if !strings.Contains(out, "fifo") {
		t.Errorf("no table:\n%s", out)
	}
}
