package norn_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The policy that README.md shows is the one that is compiled and run.
func TestReadmePolicyIsCompiled(t *testing.T) {
	readme, example := text(t, "README.md"), text(t, filepath.Join("sched", "example_test.go"))
	_, code, ok := strings.Cut(readme, "```go\n")
	code, _, closed := strings.Cut(code, "```\n")
	if !ok || !closed || strings.Count(code, "\n") < 10 {
		t.Fatal("README.md shows no policy")
	}
	if n := strings.Count(code, "\n"); n > 30 {
		t.Errorf("the policy in thirty lines has %d", n)
	}
	if !strings.Contains(example, code) {
		t.Error("the policy in README.md is not the one in sched/example_test.go")
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// Every link of a page to another file of the project leads somewhere, and every
// picture is there.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := filepath.Glob("docs/policies/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(append(pages, policies...), "README.md", "CHANGELOG.md") {
		for _, m := range link.FindAllStringSubmatch(text(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links were found: is the pattern still right?", links)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReliabilityNamesTests: the tests that docs/reliability.md names are there.
func TestReliabilityNamesTests(t *testing.T) {
	there, test := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	eachGoFile(t, func(path string) error {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range test.FindAllStringSubmatch(text(t, path), -1) {
				there[m[1]] = true
			}
		}
		return nil
	})
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text(t, filepath.Join("docs", "reliability.md")), -1)
	if len(named) < 20 {
		t.Errorf("%d tests are named", len(named))
	}
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("docs/reliability.md names %s, which is not there", m[1])
		}
	}
}
