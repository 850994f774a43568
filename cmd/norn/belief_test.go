package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packed is a trace of jobs that disturb each other on a GPU, so that bsbf has somebody
// to share with: two models, of which either keeps the GPU busy nearly all of the time.
func packed(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"norn":"trace","version":1}` + "\n")
	for i := range 12 {
		model := []string{"quick", "slow"}[i%2]
		b.WriteString(`{"job":"` + string(rune('a'+i)) + `","submit":` + string(rune('0'+i%10)) + `,"model":"` + model + `","gpus":1,"work":` + []string{"600", "3000"}[i%2] + `,"hints":{"gpu_use":0.95}}` + "\n")
	}
	path := filepath.Join(t.TempDir(), "packed.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Beliefs of policies change their decisions. Lessons are in the log only if
// policies learn.
func TestSharingBelief(t *testing.T) {
	path := packed(t)
	sim := func(belief string) (table, dir string) {
		dir = t.TempDir()
		table, _ = works(t, "sim", path, "-c", "1x4", "-p", "bsbf", "--sharing", belief, "--out", dir, "--table", "csv", "-q")
		return table, filepath.Join(dir, "bsbf")
	}
	truth, dir := sim("truth")
	if _, errOut := works(t, "explain", dir, "--learnt"); !strings.Contains(errOut, "nothing was learnt") {
		t.Errorf("without learning: %q", errOut)
	}
	if wrong, _ := sim("none"); wrong == truth {
		t.Error("a wrong belief changes nothing")
	}
	_, dir = sim("none+learn")
	out, _ := works(t, "explain", dir, "--learnt")
	if !strings.Contains(out, "quick") || !strings.Contains(out, "CORRECTED") {
		t.Errorf("learnt:\n%s", out)
	}
	out, _ = works(t, "explain", dir, "--learnt", "--json")
	var all []struct {
		Job, Beside string
		Speed       float64
		Times       int
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) == 0 || all[0].Speed <= 0 || all[0].Speed > 1 || all[0].Times == 0 {
		t.Errorf("%v: %s", err, out)
	}
	for args, want := range map[string]string{
		"sim --sharing guess": `--sharing: "guess" is not what can be believed`, "explain " + dir + " a --learnt": "leave a out",
	} {
		if _, errOut, code := norn(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("norn %s: exit code %d, %q, want %q", args, code, errOut, want)
		}
	}
}
