package titan_test

import (
	"cmp"
	"encoding/csv"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/internal/titan"
)

// TestSteps holds the steps of the four models against all measurements on V100s: half of
// those of a model are off by no more than 1.1 %, none by more than 10 %.
func TestSteps(t *testing.T) {
	for _, m := range titan.Models() {
		var off []float64
		for _, row := range measured(t, m.Name+"_placements.csv") {
			gpus := 0
			for _, digit := range row[0] {
				gpus += int(digit - '0')
			}
			off = append(off, wrong(t, &m, gpus, len(row[0]) > 1, row[1], row[2]))
		}
		for _, row := range measured(t, m.Name+"_scalability.csv") {
			off = append(off, wrong(t, &m, number(t, row[1]), true, row[2], row[3]))
		}
		slices.Sort(off)
		if half, most := off[len(off)/2], off[len(off)-1]; len(off) < 900 || half > 0.011 || most > 0.1 {
			t.Errorf("%s: %d measurements, half within %.2g, all within %.2g", m.Name, len(off), half, most)
		}
	}
}

// wrong is by how much the step of a model is off a measurement with so many samples on each
// GPU.
func wrong(t *testing.T, m *titan.Model, gpus int, spread bool, local, seconds string) float64 {
	t.Helper()
	want, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		t.Fatal(err)
	}
	return math.Abs(m.Step.Seconds(float64(number(t, local)*gpus), gpus, spread)/want - 1)
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// measured is the rows of a file of measurements on V100s, without its header.
func measured(t *testing.T, name string) [][]string {
	t.Helper()
	path := filepath.Join(shared.Path(t, "data/titan"), "V100_"+name)
	f, err := os.Open(path)
	packed := os.IsNotExist(err)
	if packed {
		f, err = os.Open(path + ".gz")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if packed {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// TestTables: every model has nine tasks, the most frequent first, and passes between any two
// of them, alone ten at most.
func TestTables(t *testing.T) {
	for _, m := range titan.Models() {
		n := len(m.Tasks)
		if n != 9 || len(m.After) != n || len(m.Together) != n || m.Most(1) != 1 || m.Most(1e6) != titan.MostGPUs {
			t.Fatalf("%s: %d tasks", m.Name, n)
		}
		if !slices.IsSortedFunc(m.Tasks, func(a, b titan.Task) int { return cmp.Compare(b.Jobs, a.Jobs) }) {
			t.Errorf("%s: the tasks are not in order", m.Name)
		}
		for i, task := range m.Tasks {
			if again, ok := m.Task(task.Name); !ok || again != task || task.Passes < 1 || task.Passes > 10 || task.Samples <= 0 || task.Batch <= 0 {
				t.Errorf("%s: %+v", m.Name, task)
			}
			for j := range m.Tasks {
				for _, passes := range []float64{m.After[i][j], m.Together[i][j]} {
					if (passes == 0) != (i == j) && !strings.HasPrefix(m.Name, "roberta") || passes < 0 || passes > 20 {
						t.Errorf("%s: %s and %s: %v passes", m.Name, m.Tasks[i].Name, m.Tasks[j].Name, passes)
					}
				}
			}
		}
	}
	if _, ok := titan.Named("gpt"); ok {
		t.Error("gpt is a model")
	}
}
