package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/config"
	"github.com/norn-scheduler/norn/local/mps"
)

// TestPacking: CUDA MPS is used where it is installed and there is a GPU for it, unless
// the configuration says otherwise, and what holds is told.
func TestPacking(t *testing.T) {
	fake, err := filepath.Abs("../../local/mps/testdata")
	if err != nil {
		t.Fatal(err)
	}
	gpu := local.Machine{Devices: []local.Device{{Name: "gpu0", Packs: true}}}
	for _, c := range []struct {
		mps        config.Switch
		m          *local.Machine
		installed  bool
		found, all bool
		note, fail string
	}{
		{config.Auto, &local.Machine{}, true, false, false, "", ""},
		{config.Auto, &gpu, true, true, false, "jobs that begin with a part of a GPU compute on it at the same time", ""},
		{config.Auto, &gpu, false, false, false, "use it in turns: nvidia-cuda-mps-control is not in PATH", ""},
		{config.On, &gpu, true, true, true, "jobs compute through CUDA MPS", ""},
		{config.On, &gpu, false, false, false, "", "is not in PATH"},
		{config.On, &local.Machine{}, true, false, false, "", "there is no NVIDIA GPU here"},
		{config.Off, &gpu, true, false, false, "CUDA MPS is turned off", ""},
	} {
		path := t.TempDir()
		if c.installed {
			path = fake + string(os.PathListSeparator) + path
		}
		t.Setenv("PATH", path)
		have, note, err := packing(&config.Config{Sharing: config.Sharing{MPS: c.mps}}, c.m)
		if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%+v: %v", c, err)
		}
		if want := filepath.Join(fake, mps.Program); (have.Program == want) != c.found || have.Always != c.all {
			t.Errorf("%+v: %+v", c, have)
		}
		if !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%+v: %q", c, note)
		}
	}
}

// TestServingKeepsToTheConfiguration: every limit of the configuration that is the
// server's own reaches it, and what holds without one is what docs/api.md says.
func TestServingKeepsToTheConfiguration(t *testing.T) {
	c := config.Default()
	c.Limits.Body, c.Limits.Connections, c.Limits.Header = 64<<10, 7, 123*time.Millisecond
	s := serving(c, nil, nil)
	if s.MaxBody != 64<<10 || s.MaxConns != 7 || s.Header != 123*time.Millisecond {
		t.Errorf("the server is told %d bytes, %d connections, %v for a head", s.MaxBody, s.MaxConns, s.Header)
	}
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	def := config.Default().Limits
	for _, want := range []string{
		fmt.Sprintf("A body may have %d MiB (`limits.body`", def.Body/unit.MiB),
		fmt.Sprintf("must come within %d seconds (`limits.header`)", int(def.Header.Seconds())),
		fmt.Sprintf("There may be %d connections at once (`limits.connections`)", def.Connections),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/api.md does not say %q", want)
		}
	}
}

// TestLimitsPage: docs/quotas.md tells every limit of users and tenants with its defaults,
// and every one of them reaches the daemon.
func TestLimitsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	def := config.Default().Limits
	for key, v := range map[string][2]any{
		"queued": {def.User.Queued, def.Tenant.Queued}, "running": {def.User.Running, def.Tenant.Running}, "gpus": {def.User.GPUs, def.Tenant.GPUs},
		"memory": {"0B", "0B"}, "array": {def.User.Array, def.Tenant.Array}, "priority": {def.User.Priority, def.Tenant.Priority},
		"grace": {"1h", "1h"}, "pids": {def.User.PIDs, def.Tenant.PIDs},
	} {
		row := fmt.Sprintf("| `%s` | %v | %v |", key, v[0], v[1])
		if !strings.Contains(strings.ReplaceAll(string(page), ",", ""), row) {
			t.Errorf("docs/quotas.md has no row %s", row)
		}
	}
	if def.User.Memory != 0 || def.Tenant.Memory != 0 || def.User.Grace != time.Hour || def.Tenant.Grace != time.Hour {
		t.Errorf("%+v", def)
	}
	all := quotaOf(&config.Quota{Queued: 1, Running: 2, GPUs: 2500, Memory: 3, Array: 4, Priority: 5, Grace: 6, PIDs: 7})
	if want := (live.Quota{Queued: 1, Running: 2, GPUs: 2.5, Memory: 3, Array: 4, Priority: 5, Grace: 6, PIDs: 7}); all != want {
		t.Errorf("%+v", all)
	}
}

// TestDownMeans: norn down means the Norn that every other verb means. The command line
// goes before the environment, and a URL is refused.
func TestDownMeans(t *testing.T) {
	f := &fake{node: api.Node{Disk: api.Disk{Path: "/srv/other"}}}
	for _, c := range []struct {
		flags      upFlags
		env        string
		want, fail string
	}{
		{flags: upFlags{state: "/srv/mine"}, want: "/srv/mine"},
		{flags: upFlags{state: "/srv/mine"}, env: "NORN_SERVER=/run/other.sock", want: "/srv/mine"},
		{env: "NORN_SERVER=/run/other.sock", want: "/srv/other"},
		{flags: upFlags{server: "/run/other.sock"}, want: "/srv/other"},
		{env: "NORN_SERVER=https://box:7077", fail: "https://box:7077 may be on another"},
	} {
		state, err := shellOf(f, c.env).stateOf(t.Context(), &c.flags)
		if state != c.want || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%+v: %q, %v", c, state, err)
		}
	}
}
