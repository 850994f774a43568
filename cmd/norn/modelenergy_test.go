package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/trace"
)

const measuredSteps = `model,gpu,gpus,nodes,batch,step_s,watts
resnet,V100,1,1,8,0.0148,118
resnet,V100,1,1,32,0.0292,186
resnet,V100,1,1,128,0.0868,262
resnet,V100,2,1,32,0.0378,161
resnet,V100,4,1,32,0.0424,146
`

// TestModelEnergy predicts from a file, names the best numbers of GPUs, and writes speeds that norn sim reads.
func TestModelEnergy(t *testing.T) {
	dir := t.TempDir()
	file, speeds := filepath.Join(dir, "steps.csv"), filepath.Join(dir, "speeds.json")
	if err := os.WriteFile(file, []byte(measuredSteps), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, code := norn(t, "model", "energy", file, "--samples", "50000", "--epochs", "90", "--batch", "128", "--gpus", "1,2,4", "--deadline", "40m", "--power-cap", "700", "--speeds", speeds)
	for _, want := range []string{"resnet  V100     1      1  0.0868", "in time with least energy on 2 GPUs", "fastest below 700 W on 2 GPUs"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	table, err := trace.ReadThroughputs(speeds, "v100")
	if err != nil || table.Len() != 3 {
		t.Errorf("%v", err)
	}
	out, _, _ = norn(t, "model", "energy", file, "--json")
	var rows []energyRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 4 || rows[3].GPUs != 8 || rows[0].Model != "resnet" {
		t.Errorf("%v: %s", err, out)
	}
	if _, said, code := norn(t, "model", "energy", file, "--held-out", "--gpus", "0"); code == 0 || !strings.Contains(said, "--gpus") {
		t.Errorf("no GPUs: %s", said)
	}
	if out, _, code := norn(t, "model", "energy", file, "--held-out"); code != 0 || !strings.Contains(out, "On average over models, steps are") {
		t.Errorf("held out:\n%s", out)
	}
}
