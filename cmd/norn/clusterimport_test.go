package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClusterImport makes a cluster file of nodes and queues, packed and not, on which jobs
// are simulated.
func TestClusterImport(t *testing.T) {
	const samples = "../../trace/clusterspec/kubespec/testdata/"
	plain, err := os.ReadFile(samples + "nodes.json")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	nodes, made := file(t, "nodes.json.gz", packed.String()), filepath.Join(t.TempDir(), "cluster.yaml")
	out, told := works(t, "cluster", "import", nodes, samples+"kueue.yaml", "-o", made)
	if out != "" || !strings.Contains(told, "norn: quotas by flavor, which are added up: 1 (nlp)\n") {
		t.Errorf("%s\n%s", out, told)
	}
	again, _ := works(t, "cluster", "import", samples+"kueue.yaml", samples+"nodes.json")
	if text, err := os.ReadFile(made); err != nil || string(text) != again {
		t.Errorf("%v: in a file\n%s\nand on standard output\n%s", err, text, again)
	}
	if out, _ := works(t, "cluster", made); !strings.Contains(out, "8 nodes, 56 GPUs") || !strings.Contains(out, "nlp       research  20         36     2") {
		t.Errorf("%s", out)
	}
	jobs := file(t, "jobs.csv", "gpus,duration,tenant\n8,60,nlp\n8,60,vision\n")
	if out, _ := works(t, "sim", jobs, "--cluster", made, "--policy", "fairshare", "--table", "csv"); !strings.Contains(out, "fairshare") {
		t.Errorf("%s", out)
	}
	if _, errOut, code := norn(t, "cluster", "import", "nowhere.json"); code != exitFailed || !strings.Contains(errOut, "nowhere.json") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}
