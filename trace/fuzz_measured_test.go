package trace

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/norn-scheduler/norn/perf"
)

// input writes what a fuzzer made to a file that is there for all rounds of a
// process.
func input(t *testing.T, dir, name string, content []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// namesFile checks that an error names the file that it is about.
func namesFile(t *testing.T, err error, path string) {
	if err == nil || !strings.Contains(err.Error(), path) || !utf8.ValidString(err.Error()) {
		t.Fatalf("the error does not name the file: %v", err)
	}
}

const gavelTableText = `{"v100":{"('ResNet-18 (batch size 64)', 1)":{"null":24.1,"('LM', 1)":[1,2]},"('ResNet-18 (batch size 64)', 2)":{"null":74}},"k80_unconsolidated":{"('LM (batch size 5)', 4)":{"null":0}}}`

// FuzzSpeeds reads anything as a table of throughputs (--speeds): nothing panics,
// and what is read can be a speed.
func FuzzSpeeds(f *testing.F) {
	f.Add([]byte(gavelTableText))
	f.Add([]byte(`{"v100":{"('a', -1)":{"null":-2}}}`))
	f.Add([]byte(`{"v100":{"('a', 1)":{"null":1e400}}}`))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<14 {
			t.Skip("too long to be of use")
		}
		path := input(t, dir, "speeds.json", content)
		n := 0
		err := readGavelAlone(path, func(string) func(string, int, float64) {
			return func(_ string, gpus int, steps float64) {
				if n++; gpus < 1 || !(steps >= 0) || math.IsInf(steps, 0) {
					t.Fatalf("%d GPUs do %v steps per second", gpus, steps)
				}
			}
		})
		if err != nil {
			namesFile(t, err, path)
		}
		table, all := ReadThroughputs(path, "V100")
		switch {
		case all != nil:
			namesFile(t, all, path)
		case err != nil || table.Len() < 1 || table.Len() > n:
			t.Fatalf("%d of %d measurements, %v", table.Len(), n, err)
		}
	})
}

// FuzzPlans reads anything as plans of large models (--speeds, --believed-speeds): nothing panics, and what is
// read are times.
func FuzzPlans(f *testing.F) {
	f.Add([]byte(`{"optimal":{"bert_760M_256":{"2_a40_2_n_1_d":1.5,"1_a40_1_n_2_d":-1}}}`))
	f.Add([]byte(`{"bert_760M_256":{"2_a40_2_n_1_d":[[[1,1,2],0.5,0.1,0,0.6],-1,[[1,2,1],0,0,0,Infinity]],"1_a40_1_n_2_d":[]}}`))
	f.Add([]byte(`{"bert":{"2_a40_2_n_0_d":[[]]}}`))
	f.Add([]byte(`{"a_1":{"1_b_1_n_1_d":1e300}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<14 {
			t.Skip("too long to be of use")
		}
		path := input(t, dir, "plans.json", content)
		err := readArenaPlans(path, func(_ string, c perf.Cell, seconds float64) {
			if c.Nodes < 1 || c.Each < 1 || math.IsNaN(seconds) || seconds > mostAmount {
				t.Fatalf("%+v: %v seconds", c, seconds)
			}
		})
		if err != nil {
			namesFile(t, err, path)
		}
		if plans, err := ReadPlans(path); err != nil {
			namesFile(t, err, path)
		} else if plans.Len() < 1 || !IsPlans(path) && !strings.ContainsRune(string(content), 92) {
			t.Fatalf("%d plans", plans.Len())
		}
	})
}

// FuzzProfile reads anything as the measured speeds of each format that takes some
// (--profile): nothing panics, and what is read makes run times.
func FuzzProfile(f *testing.F) {
	f.Add(uint8(0), []byte(gavelTableText), []byte(nil))
	f.Add(uint8(1), []byte("table,model,gpus,iter_time_base_s\nmodels,alexnet,1,0.5\n"), []byte(nil))
	f.Add(uint8(2), []byte(`{"optimal":{"bert_760M_256":{"2_a40_2_n_1_d":1.5,"1_a40_2_n_0_d":2}}}`), []byte(nil))
	f.Add(uint8(3), []byte("placement,local_bsz,step_time\n4,32,0.5\n44,64,\n"), []byte("iteration\n100\n200\n"))
	f.Add(uint8(4), []byte("x"), []byte("ustar"))
	dir := f.TempDir()
	app := filepath.Join(dir, "profiles", "cifar10")
	if err := os.MkdirAll(app, 0o700); err != nil {
		f.Fatal(err)
	}
	rows := []struct{ format, text string }{
		{"gavel-msr", "ResNet-18 (batch size 64)\tc\t-n\t1\t100\t5\t2\n"},
		{"synergy", "0,alexnet,.5,100,2\n"},
		{"arena", "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type\na,1,10,bert__760M,9,256,2,a40\n"},
		{"pollux", "name,time,application,num_replicas,batch_size\na,0,cifar10,5,160\n"},
		{"pollux", "name,time,application,num_replicas,batch_size\na,0,cifar10,5,160\n"},
	}
	f.Fuzz(func(t *testing.T, which uint8, content, more []byte) {
		if len(content)+len(more) > 1<<14 {
			t.Skip("too long to be of use")
		}
		row := rows[int(which)%len(rows)]
		path := dir
		switch int(which) % len(rows) {
		case 3:
			input(t, app, "placements.csv", content)
			input(t, app, "validation-128.csv", more)
		default:
			path = input(t, dir, "profile", append(content, more...))
		}
		r, err := NewReader(strings.NewReader(row.text), "jobs", Options{Format: row.format, Profile: path})
		var e Entry
		if err == nil {
			err = r.Next(&e)
			defer r.Close()
		}
		var bad *Error
		switch {
		case err == nil && (e.Truth.Work < 0 || e.Truth.Work > century):
			t.Fatalf("runs for %v", e.Truth.Work)
		case err != nil && !errors.As(err, &bad) && !strings.Contains(err.Error(), path):
			t.Fatalf("the error names neither row nor file: %v", err)
		}
	})
}
