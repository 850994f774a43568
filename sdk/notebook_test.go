package sdk_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
)

// notebook is what of a notebook is compared: its cells, and what they gave.
type notebook struct {
	Cells []struct {
		Type    string   `json:"cell_type"`
		Source  []string `json:"source"`
		Outputs []struct {
			Type string                     `json:"output_type"`
			Name string                     `json:"name"`
			Text []string                   `json:"text"`
			Data map[string]json.RawMessage `json:"data"`
		} `json:"outputs"`
	} `json:"cells"`
}

func readNotebook(t *testing.T, path string) notebook {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var book notebook
	if err := json.Unmarshal(text, &book); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return book
}

// TestNotebook executes the notebook among the examples with today's norn. Every figure that it
// prints is as committed, and every picture is drawn again; how pictures look depends on the version
// of matplotlib.
func TestNotebook(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), python(t), "-c", "import pandas, matplotlib, nbclient, ipykernel").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("continuous integration needs python3-pandas, python3-matplotlib, python3-nbclient and python3-ipykernel: %s", out)
		}
		t.Skip("a notebook needs Debian's python3-pandas, python3-matplotlib, python3-nbclient and python3-ipykernel")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "norn"), "../cmd/norn").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	const source = "../examples/results/results.ipynb"
	target := filepath.Join(dir, "results.ipynb")
	cmd := exec.CommandContext(t.Context(), python(t), "../examples/results/execute.py", source, target)
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the notebook fails: %v\n%s", err, out)
	}
	want, got := readNotebook(t, source), readNotebook(t, target)
	texts, pictures := 0, 0
	for i, cell := range want.Cells {
		if len(cell.Outputs) != len(got.Cells[i].Outputs) {
			t.Errorf("cell %d gives %d outputs, and %d are committed", i, len(got.Cells[i].Outputs), len(cell.Outputs))
			continue
		}
		for k, out := range cell.Outputs {
			now := got.Cells[i].Outputs[k]
			if out.Data["image/png"] != nil {
				if pictures++; len(now.Data["image/png"]) < 1000 {
					t.Errorf("cell %d draws no picture", i)
				}
				continue
			}
			texts++
			if was, is := strings.Join(out.Text, ""), strings.Join(now.Text, ""); was != is || out.Name != "stdout" {
				t.Errorf("cell %d prints\n%s\ninstead of\n%s\n(python3 execute.py results.ipynb results.ipynb in examples/results writes it anew)", i, is, was)
			}
		}
	}
	if texts < 4 || pictures < 3 {
		t.Errorf("%d texts and %d pictures are committed: the notebook was not executed", texts, pictures)
	}
}
