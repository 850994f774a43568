package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/trace/catalogue"
)

// TestFetch fetches a data set from a server here, checks it, and fetches nothing that is
// there already.
func TestFetch(t *testing.T) {
	root := shared.Path(t, "data/lucid")
	all, err := catalogue.Files()
	if err != nil {
		t.Fatal(err)
	}
	asked, spoil := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		for _, f := range catalogue.Of(all, "lucid") {
			if r.URL.Path == "/"+f.Repository+"/"+f.Commit+"/"+f.Source {
				text, err := os.ReadFile(filepath.Join(filepath.Dir(root), f.Path))
				if err != nil {
					t.Error(err)
				}
				w.Write(append(text, spoil...))
				return
			}
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	dir := t.TempDir()
	out, _ := works(t, "trace", "fetch", "lucid", "--from", server.URL, "--data", dir)
	files := catalogue.Of(all, "lucid")
	if strings.Count(out, "licence") != len(files) || !strings.Contains(out, files[0].SHA256) || asked != len(files) {
		t.Errorf("%d requests, %s", asked, out)
	}
	for _, f := range files {
		if kept, err := os.ReadFile(filepath.Join(dir, "data", f.Path)); err != nil || !f.Has(kept) {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	if out, _ = works(t, "trace", "fetch", "lucid", "--from", server.URL, "--data", dir); strings.Count(out, "is there") != len(files) || asked != len(files) {
		t.Errorf("%d requests, %s", asked, out)
	}

	spoil = "more"
	other := t.TempDir()
	if _, told, code := norn(t, "trace", "fetch", files[0].Path, "--from", server.URL, "--data", other); code != exitFailed || !strings.Contains(told, files[0].Path+": ") || !strings.Contains(told, "checksum") {
		t.Errorf("exit code %d, %q", code, told)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("%v is left of what was refused, %v", left, err)
	}
	if _, told, code := norn(t, "trace", "fetch", "muri", "--from", server.URL, "--data", other); code != exitFailed || !strings.Contains(told, "404") {
		t.Errorf("exit code %d, %q", code, told)
	}
}

// TestFetchList lists data sets and files, and says what was never tried.
func TestFetchList(t *testing.T) {
	out, _ := works(t, "trace", "fetch", "--list")
	if !strings.Contains(out, "S-Lab-System-Group/Lucid") || !strings.Contains(out, "never tried") {
		t.Error(out)
	}
	out, _ = works(t, "trace", "fetch", "lucid", "-l")
	if !strings.Contains(out, "lucid/colocate_info.csv") || strings.Contains(out, "philly") {
		t.Error(out)
	}
	for line, want := range map[string]string{"trace fetch": "name a data set", "trace fetch lucit": "mean lucid"} {
		if _, told, code := norn(t, strings.Fields(line)...); code != exitUsage || !strings.Contains(told, want) {
			t.Errorf("norn %s: exit code %d, %q", line, code, told)
		}
	}
}
