package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/policy/need"
)

// TestNeeds: every policy of the table says what it lives on, and what it does without; las
// alone goes by nothing but what every run has. Policies that share GPUs live on what
// tells how jobs get on with each other there.
func TestNeeds(t *testing.T) {
	used := need.Set(0)
	for _, e := range policy.Table() {
		needs := e.Needs()
		if bare := e.Name == "las" || e.Name == "fifo"; bare != (len(needs) == 0) {
			t.Errorf("%s: %d needs", e.Name, len(needs))
		}
		for _, n := range needs {
			used |= n.Any
			if n.Any == 0 || n.Without == "" || strings.HasSuffix(n.Without, ".") {
				t.Errorf("%s: %+v", e.Name, n)
			}
		}
		told := needs.Has(need.Use) || needs.Has(need.Stages) || needs.Has(need.Backbones)
		if e.Acts.Has(policy.Shares) && !told {
			t.Errorf("%s shares GPUs, and lives on nothing that tells how jobs use them", e.Name)
		}
	}
	for _, thing := range []need.Thing{need.RunTimes, need.Elastic, need.Stages, need.Use, need.Memory, need.Services, need.Types, need.Backbones, need.Tenants, need.Rations} {
		if !used.Has(thing) {
			t.Errorf("no policy lives on %s", thing)
		}
	}
}

// TestNeedsDocumented: the page of each policy says what it lives on, as norn policies does.
func TestNeedsDocumented(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "docs", "policies", "*.md"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d pages, %v", len(paths), err)
	}
	var all strings.Builder
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	for _, e := range policy.Table() {
		names := strings.Join(e.Needs().Names(), ", ")
		if names == "" {
			names = "submissions and ends of jobs alone"
		}
		if line := "`" + e.Name + "`: " + names + "."; strings.Count(all.String(), line) != 1 {
			t.Errorf("no page says %q", line)
		}
	}
}
