package norn_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// findings are those that the list of exceptions in .ci/deadcode.txt expects, a function
// made up for each package that is listed as a whole.
func findings(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadFile(".ci/deadcode.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			out = append(out, f[0]+" "+strings.Replace(f[1], "*", "Anything", 1))
		}
	}
	return out
}

// TestLint: the check for code that no program reaches accepts what its list has, and
// neither more nor less.
func TestLint(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	all := findings(t)
	for _, c := range []struct {
		findings []string
		want     string // empty: none
	}{
		{all, ""},
		{append([]string{"sched NewView"}, all...), "sched: NewView is reached by no program"},
		{all[1:], "is reached, or gone: take it off the list"},
		{append([]string{"solve/highs Another"}, all...), ""},
	} {
		cmd := exec.Command("bash", ".ci/lint", "--findings")
		cmd.Stdin = strings.NewReader(strings.Join(c.findings, "\n") + "\n")
		out, err := cmd.CombinedOutput()
		if (err != nil) != (c.want != "") || !strings.Contains(string(out), c.want) || c.want == "" && len(out) > 0 {
			t.Errorf("%v: %s", err, out)
		}
	}
}
