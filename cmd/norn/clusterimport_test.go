package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClusterImport: what Slurm's programs print becomes a cluster file and a policy, under which
// an export of sacct is replayed, each job in its partition.
func TestClusterImport(t *testing.T) {
	nodes := file(t, "nodes.txt", "NodeName=g1 CPUTot=8 RealMemory=1000 Gres=gpu:a100:4 State=IDLE Partitions=gpu,debug\nNodeName=g2 CPUTot=8 RealMemory=1000 Gres=gpu:a100:4 State=IDLE Partitions=gpu\n")
	conf := file(t, "slurm.conf", "PriorityWeightQOS=10\nPriorityWeightTRES=cpu=1\nPreemptType=preempt/qos\nPreemptMode=REQUEUE\n")
	qos := file(t, "qos.txt", "Name|Priority|Preempt\nhigh|10|normal\nnormal|0|\n")
	jobs := file(t, "jobs.txt", `JobID|User|Account|Partition|Submit|Start|State|ElapsedRaw|NNodes|AllocTRES|Timelimit|QOS
1|ann|nlp|debug|2026-01-01T10:00:00|2026-01-01T10:00:00|COMPLETED|600|1|gres/gpu:a100=4|00:10:00|normal
2|bob|gpu|debug|2026-01-01T10:00:00|2026-01-01T10:10:00|COMPLETED|600|1|gres/gpu:a100=4|00:10:00|normal
3|cid|vision|gpu|2026-01-01T10:01:00|2026-01-01T10:01:00|COMPLETED|600|1|gres/gpu:a100=4|00:10:00|normal
4|dan|vision|gpu|2026-01-01T10:02:00|2026-01-01T10:02:00|COMPLETED|60|1|gres/gpu:a100=4|00:10:00|high
`)
	to := filepath.Join(t.TempDir(), "cluster.yaml")
	out, told := works(t, "cluster", "import", conf, qos, nodes, "-o", to)
	policy := regexp.MustCompile(`--estimates user --stop restart --policy '(.*)'`).FindStringSubmatch(told)
	if out != "" || policy == nil || !strings.Contains(told, "  PriorityWeightTRES of slurm.conf: 1 time\n") {
		t.Fatalf("%q\n%s", out, told)
	}
	if shown := must(t, "cluster", to); !strings.Contains(shown, "1      4     debug\n2      8     gpu\n") {
		t.Errorf("%s", shown)
	}
	folder := filepath.Join(t.TempDir(), "out")
	works(t, "sim", jobs, "--cluster", to, "-q", "--stop", "restart", "--estimates", "user", "--policy", policy[1], "--out", folder)
	found, _ := filepath.Glob(filepath.Join(folder, "*", "jobs.csv"))
	if len(found) == 0 {
		found, _ = filepath.Glob(filepath.Join(folder, "jobs.csv"))
	}
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	rows, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	// Job 4 takes the place of the youngest on any node, job 3. Jobs 1 and 2 follow each other on g1.
	want := map[string]string{"1": "0", "2": "600", "3": "60", "4": "120"}
	lines := strings.Split(strings.TrimSpace(string(rows)), "\n")
	head := strings.Split(lines[0], ",")
	if !slices.Contains(head, "first_start_s") || len(lines) != 5 {
		t.Fatalf("%s", rows)
	}
	for _, line := range lines[1:] {
		f := strings.Split(line, ",")
		for i, name := range head {
			if name == "first_start_s" && f[i] != want[f[0]] {
				t.Errorf("job %s starts at %s, want %s", f[0], f[i], want[f[0]])
			}
		}
	}
	if stdout, _ := works(t, "cluster", "import", nodes); !strings.HasPrefix(stdout, "gpu-types:") {
		t.Errorf("without -o: %s", stdout)
	}
	if _, stderr, code := norn(t, "cluster", "import", jobs); code == 0 || !strings.Contains(stderr, "is nothing that can be imported") {
		t.Errorf("a trace is imported: %s", stderr)
	}
}
