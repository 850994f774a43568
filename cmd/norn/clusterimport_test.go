package main

import (
	"fmt"
	"maps"
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
	// Job 4 takes the place of the youngest on any node, job 3. Jobs 1 and 2 follow each other on g1.
	if starts, want := firstStarts(t, found[0]), map[string]string{"1": "0", "2": "600", "3": "60", "4": "120"}; !maps.Equal(starts, want) {
		t.Errorf("jobs start at %v, want %v", starts, want)
	}
	if stdout, _ := works(t, "cluster", "import", nodes); !strings.HasPrefix(stdout, "gpu-types:") {
		t.Errorf("without -o: %s", stdout)
	}
	if _, stderr, code := norn(t, "cluster", "import", jobs); code == 0 || !strings.Contains(stderr, "is nothing that can be imported") {
		t.Errorf("a trace is imported: %s", stderr)
	}
}

// firstStarts are the first starts of the jobs of a table of jobs, as it has them.
func firstStarts(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")
	column := slices.Index(strings.Split(rows[0], ","), "first_start_s")
	if column < 0 {
		t.Fatalf("%s", text)
	}
	out := map[string]string{}
	for _, row := range rows[1:] {
		fields := strings.Split(row, ",")
		out[fields[0]] = fields[column]
	}
	return out
}

// TestManyAccounts: the policy of a cluster with limits for hundreds of accounts goes to a file, which simulations
// take, and which tables and folders name by its beginning.
func TestManyAccounts(t *testing.T) {
	assoc := strings.Builder{}
	assoc.WriteString("Account|User|Share|GrpJobs|ParentName\nroot||1||\n")
	for i := range 300 {
		fmt.Fprintf(&assoc, "group%d||1|%d|root\n", i, i%3+1)
	}
	nodes := file(t, "nodes.txt", "NodeName=g1 CPUTot=8 RealMemory=1000 Gres=gpu:a100:4 State=IDLE\n")
	conf := file(t, "slurm.conf", "PriorityWeightAge=10\n")
	to := filepath.Join(t.TempDir(), "cluster.yaml")
	_, told := works(t, "cluster", "import", conf, nodes, file(t, "assoc.txt", assoc.String()), "-o", to)
	list := strings.TrimSuffix(to, ".yaml") + ".policy"
	if !strings.Contains(told, "--policy @"+list+"\n") {
		t.Fatalf("%s", told)
	}
	jobs := file(t, "jobs.txt", `JobID|User|Account|Submit|Start|State|ElapsedRaw|NNodes|AllocTRES|Timelimit
1|ann|group0|2026-01-01T10:00:00|2026-01-01T10:00:00|COMPLETED|600|1|gres/gpu:a100=1|00:10:00
2|bob|group0|2026-01-01T10:00:00|2026-01-01T10:10:00|COMPLETED|600|1|gres/gpu:a100=1|00:10:00
`)
	folder := filepath.Join(t.TempDir(), "out")
	works(t, "sim", jobs, "--cluster", to, "-q", "--estimates", "user", "--policy", "@"+list, "--policy", "fifo", "--out", folder)
	found, _ := filepath.Glob(filepath.Join(folder, "slurm*", "jobs.csv"))
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	if starts, want := firstStarts(t, found[0]), map[string]string{"1": "0", "2": "600"}; !maps.Equal(starts, want) { // GrpJobs=1
		t.Errorf("jobs start at %v, want %v", starts, want)
	}
}
