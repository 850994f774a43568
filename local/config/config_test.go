package config

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

var (
	root  = user{uid: 0, home: "/root", runtimeDir: "/run/user/0"}
	alice = user{uid: 1000, home: "/home/alice", runtimeDir: "/run/user/1000"}
)

// written is the file that a configuration is written as.
func written(c *Config) string {
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.String()
}

// TestDefaultIsReadBack: the file that is printed gives the configuration that it
// was printed from, with comments and without.
func TestDefaultIsReadBack(t *testing.T) {
	for _, who := range []user{root, alice, {uid: 7, home: "/h", stateHome: "/s"}} {
		c := defaults(who)
		again, err := parse("default", []byte(written(c)), who)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%v\n%+v\nbecomes\n%+v", err, c, again)
		}
		var bare bytes.Buffer
		if err := c.WriteValues(&bare); err != nil || strings.Contains(bare.String(), "#") {
			t.Fatalf("%v\n%s", err, bare.String())
		}
		if again, err = parse("values", bare.Bytes(), who); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%v\n%+v\nbecomes\n%+v", err, c, again)
		}
		if empty, err := parse("empty", []byte("# nothing\n"), who); err != nil || !reflect.DeepEqual(c, empty) {
			t.Fatalf("an empty file: %v, %+v", err, empty)
		}
	}
}

// TestEveryKeyHasAComment: whoever reads the file learns what each key means.
func TestEveryKeyHasAComment(t *testing.T) {
	seen := 0
	var walk func(prefix string, all []entry)
	walk = func(prefix string, all []entry) {
		for _, e := range all {
			seen++
			if len(e.doc) < 10 {
				t.Errorf("%s%s has the comment %q", prefix, e.key, e.doc)
			}
			for line := range strings.SplitSeq(e.doc, "\n") {
				if len(line) > 90 {
					t.Errorf("%s%s: the line %q is too long", prefix, e.key, line)
				}
			}
			walk(prefix+e.key+".", e.inner)
		}
	}
	walk("", Default().entries())
	if seen < 50 {
		t.Errorf("only %d keys", seen)
	}
}

// TestPlaces: where things lie depends on who runs the daemon.
func TestPlaces(t *testing.T) {
	for _, x := range []struct {
		who                  user
		state, socket, where string
	}{
		{root, "/var/lib/norn", "/run/norn.sock", "/etc/norn/norn.yaml"},
		{alice, "/home/alice/.local/state/norn", "/run/user/1000/norn.sock", "/home/alice/.config/norn/norn.yaml"},
		{user{uid: 1, home: "/h"}, "/h/.local/state/norn", "/h/.local/state/norn/norn.sock", "/h/.config/norn/norn.yaml"},
		{user{uid: 1, home: "/h", stateHome: "/s", config: "/c"}, "/s/norn", "/s/norn/norn.sock", "/c/norn/norn.yaml"},
	} {
		c := defaults(x.who)
		if c.State != x.state || c.Socket != x.socket || x.who.path() != x.where {
			t.Errorf("%+v: %s, %s, %s", x.who, c.State, c.Socket, x.who.path())
		}
	}
	c, err := parse("f", []byte("state: /data/norn"), user{uid: 1, home: "/h"})
	if err != nil || c.Socket != "/data/norn/norn.sock" {
		t.Errorf("the socket does not follow the state: %+v, %v", c, err)
	}
	if _, err := parse("f", nil, user{uid: 1}); err == nil || !strings.Contains(err.Error(), "f: state: there is no home folder") {
		t.Errorf("without a home: %v", err)
	}
}

const everything = `
state: /data/norn/
socket: /data/s.sock
devices: [0, gpu1, GPU-1a2b]
slot-memory: 8GiB
host: {slots: 2, memory: 4GiB}
reserve: {cpus: 1.5, memory: 2G}
labels: [zone=a]
taints: ["spot=yes:NoSchedule"]
policy: tiresias(limits=3600,36000,promote=2)
estimates: history
speeds:
  - {type: T4, speed: 0.4}
  - {type: T4, model: bert, speed: 0}
half-life: 7d
operators: [bob, 1001]
tenants:
  - {name: research, guarantee: 50%}
  - name: vision
    parent: research
    guarantee: 2
    limit: 6
    weight: 2
    users: [alice, bob]
gains:
  - {backbone: llama, from: questions, to: answers, after: 2.5, together: 1.25}
jobs: {stop: checkpoint, grace: 2m, cancel-grace: 1s, retry: -1, backoff: 90, cpus: 500m, resident-idle: 9s}
health: {sample: 500ms, checkpoint-failures: 1, crash-within: 1m30s, crash-times: 2}
sharing: {mps: off, period: 2s, speed-for: 1m, speed-margin: 0.25, memory-factor: 1.5, memory-for: 5s}
logs: {bytes: 1MiB, keep: 0, retain: 36h}
disk: {reserve: 10GiB, refuse: 1GiB}
history: {jobs: 5, compact: 1000, keep: 0}
listen:
  address: 0.0.0.0:7077
  cert: /etc/norn/cert.pem
  key: /etc/norn/key.pem
  tokens:
    - {name: ci, hash: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, user: alice}
    - {name: ops, file: /etc/norn/ops.token, user: root, role: operator}
limits: {body: 1MiB, connections: 10, header: 1s, jobs: 7, array: 3, user: {queued: 1, running: 2, gpus: 2.5, memory: 3GiB, array: 4, priority: 5, grace: 6s, pids: 7}, tenant: {gpus: 8}}
isolation: {cgroups: off, parent: /lab/norn}
counted: rdma=2, license=4
metrics: false
log-level: debug
`

// TestEverything: every key that there is, with a value that is not the default.
func TestEverything(t *testing.T) {
	c, err := parse("all.yaml", []byte(everything), root)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		State: "/data/norn", Socket: "/data/s.sock",
		Devices: Devices{Only: []string{"0", "gpu1", "GPU-1a2b"}},
		SlotMem: 8 * unit.GiB,
		Counted: "license=4|rdma=2",
		Host:    Host{Slots: 2, Memory: 4 * unit.GiB},
		Labels:  []label.Label{{Key: "zone", Value: "a"}}, Taints: []label.Taint{{Key: "spot", Value: "yes", Effect: label.NoSchedule}},
		Reserve:   Reserve{CPUs: 1500, Memory: 2 * unit.GiB},
		Policy:    experiment.Choice{Policy: "tiresias", Settings: []experiment.Setting{{Name: "limits", Value: "3600,36000"}, {Name: "promote", Value: "2"}}},
		Estimates: Estimates{experiment.History},
		Tenants: []Tenant{
			{Tenant: clusterspec.Tenant{Name: "research", Guarantee: clusterspec.Share{Percent: 50}}},
			{Tenant: clusterspec.Tenant{Name: "vision", Parent: "research", Guarantee: clusterspec.Share{GPUs: 2000}, Limit: clusterspec.Share{GPUs: 6000}, Weight: 2}, Users: []string{"alice", "bob"}},
		},
		Gains:    []Gain{{"llama", "questions", "answers", 2.5, 1.25}},
		Speeds:   []Speed{{"T4", "", 0.4}, {"T4", "bert", 0}},
		HalfLife: 7 * day, Operators: []string{"bob", "1001"},
		Jobs:    Jobs{Stop: job.Checkpoint, Grace: 2 * time.Minute, CancelGrace: time.Second, Retry: -1, Backoff: 90 * time.Second, CPUs: 500, ResidentIdle: 9 * time.Second},
		Health:  Health{Sample: 500 * time.Millisecond, Checkpoints: 1, CrashWithin: 90 * time.Second, CrashTimes: 2},
		Sharing: Sharing{MPS: Off, Period: 2 * time.Second, SpeedFor: time.Minute, SpeedMargin: 0.25, MemoryFactor: 1.5, MemoryFor: 5 * time.Second},
		Logs:    Logs{Bytes: unit.MiB, Retain: 36 * time.Hour},
		Disk:    Disk{Reserve: 10 * unit.GiB, Refuse: unit.GiB},
		History: History{Jobs: 5, Compact: 1000},
		Limits: Limits{Body: unit.MiB, Connections: 10, Header: time.Second, Jobs: 7, Array: 3,
			User:   Quota{Queued: 1, Running: 2, GPUs: 2500, Memory: 3 * unit.GiB, Array: 4, Priority: 5, Grace: 6 * time.Second, PIDs: 7},
			Tenant: Quota{Queued: 50_000, GPUs: 8000, Array: 10_000, Priority: 1000, Grace: time.Hour, PIDs: 32_768},
		},
		Listen: Listen{Address: "0.0.0.0:7077", Cert: "/etc/norn/cert.pem", Key: "/etc/norn/key.pem", Tokens: []Token{
			{Name: "ci", Hash: HashOf("hello"), User: "alice"},
			{Name: "ops", File: "/etc/norn/ops.token", User: "root", Operator: true},
		}},
		Isolation: Isolation{Cgroups: Off, Parent: "/lab/norn"},
		LogLevel:  slog.LevelDebug,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("have %+v\nwant %+v", c, want)
	}
	again, err := parse("again", []byte(written(c)), alice)
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%v\n%s\nis read as %+v", err, written(c), again)
	}
	base := reflect.ValueOf(defaults(root)).Elem()
	for i := range base.NumField() {
		if reflect.DeepEqual(base.Field(i).Interface(), reflect.ValueOf(c).Elem().Field(i).Interface()) {
			t.Errorf("%s still has its default: the test does not try it", base.Type().Field(i).Name)
		}
	}
}

// TestMistakes: an error names file, line, key and what to write.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"stat: /x":                             `c.yaml:1:1: the configuration has no key "stat"; known are: `,
		"metrics: true\nlimit: {}":             `did you mean limits?`,
		"jobs: {graec: 3}":                     `c.yaml:1:8: jobs has no key "graec"; known are: backoff, cancel-grace, cpus, grace, resident-idle, retry, stop; did you mean grace?`,
		"state: norn":                          `c.yaml:1:8: "norn": write an absolute path`,
		"socket: /" + strings.Repeat("a", 107): "write a path of at most 107 bytes",
		"sharing: {speed-margin: 2}":           `c.yaml:1:25: "2": write a number from 0.01 to 1`,
		"sharing: {period: 10ms}":              `write a duration from 100ms to `,
		"devices: many":                        `c.yaml:1:10: "many": write auto, none, a number of slots up to 64`,
		"devices: {big: 65}":                   `"big": "65": write a type and a number of slots from 1 to 64`,
		"devices: {big: 0}":                    "a number of slots from 1 to 64",
		"devices: {}":                          "no slots are named",
		"speeds: [{type: T4}]":                 "a speed needs type and speed",
		"speeds: [{type: T4, speed: -1}]":      `"-1": write how many times as fast`,
		"speeds: [{type: T4, speed: 1}, {type: T4, speed: 2}]": `the speed on "T4" is given twice`,
		"devices: 65":                                  "a number of slots up to 64",
		"devices: []":                                  "the list names no GPU",
		"devices: {a: [1]}":                            "a single value is wanted here",
		"reserve: {cpus: -1}":                          `"-1": write a number of CPU cores`,
		"reserve: {memory: much}":                      `"much" is not an amount of memory`,
		"policy: fifi":                                 `c.yaml:1:9: unknown policy "fifi"; known are: fifo,`,
		"policy: fifo(mode=eazy)":                      "c.yaml:1:9: policy fifo: mode=eazy: write one of",
		"policy: fifo(mode=easy":                       "the closing parenthesis is missing",
		"estimates: oracle":                            `"oracle": write user, history`,
		"estimates: [user, user]":                      "c.yaml:1:19: user is given twice",
		"tenants: [{parent: a}]":                       "a tenant needs a name",
		"tenants: [{name: a}, {name: a}]":              `tenant "a" is given twice`,
		"tenants: [{name: a, parent: b}]":              `c.yaml:1:10: tenants: the parent of "a", "b", is not a tenant: add it`,
		"tenants: [{name: a, parent: a}]":              `"a" is below itself`,
		"tenants: [{name: a, guarantee: 3, limit: 2}]": "its limit of 2 is below its guarantee of 3",
		"tenants: [{name: a, weight: 0}]":              `"0": write a weight above 0`,
		"tenants: [{name: a, guarantee: all}]":         "write a number of GPUs, or a percentage",
		"tenants: [{name: a, guarantee: 99999999}]":    "more than any machine has",
		"operators: root":                              "operators are written as a list",
		"operators: [\"\"]":                            "is not a name",
		"jobs: {stop: maybe}":                          `"maybe": write one of checkpoint, freeze, restart, never, last-save`,
		"jobs: {grace: -1s}":                           `"-1s": write a duration from 0s to 36500d`,
		"jobs: {retry: -2}":                            "write a whole number from -1 to",
		"health: {sample: 1ms}":                        "write a duration from 100ms to",
		"logs: {bytes: 1}":                             `"1": write an amount from 4KiB to`,
		"disk: {reserve: 1MiB}":                        "disk.refuse: it is more than disk.reserve, 1MiB",
		"metrics: true\ndisk: {refuse: 1GiB}":          "c.yaml:2:16: disk.refuse: it is more than disk.reserve, 512MiB",
		"isolation: {cgroups: yes}":                    `"yes": write one of auto, on, off`,
		"isolation: {parent: ../x}":                    "write the path of a cgroup",
		"metrics: maybe":                               "write true or false",
		"log-level: loud":                              "write one of debug, info, warn, error",
		"jobs:":                                        "c.yaml:1:",
		"a: 1\n---\nb: 2":                              "a second document",
		"- state":                                      "the configuration is written as keys and values",
		"state: &x /a":                                 "anchors, aliases, tags and directives are not allowed",
		"state: \"/a\\nb\"":                            "write an absolute path",
		strings.Repeat("#", maxFile+1):                 "a configuration has at most",
	} {
		mistaken(t, text, want)
	}
}

// mistaken checks that a text is refused with a fitting error.
func mistaken(t *testing.T, text, want string) {
	t.Helper()
	_, err := parse("c.yaml", []byte(text), alice)
	if err == nil || !strings.HasPrefix(err.Error(), "c.yaml:") || !strings.Contains(err.Error(), want) {
		t.Errorf("%s\n  have %v\n  want %s", text[:min(len(text), 100)], err, want)
	}
}

// TestListenMistakes: nothing that would give away the machine is taken.
func TestListenMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"listen: {address: 7077}":                                      `c.yaml:1:19: "7077": write an address and a port`,
		"listen: {address: \"127.0.0.1:7077\"}":                        "c.yaml:1:19: listen.address: over TCP a token proves who calls, and there is none: make one with norn config token NAME",
		"listen: {address: \":7077\", tokens: [" + token + "]}":        "without TLS whoever is on the way can read the tokens: give cert and key, or write 127.0.0.1",
		"listen: {address: \"gpu:7077\", tokens: [" + token + "]}":     "can be reached from other machines",
		"listen: {cert: /c}":                                           "c.yaml:1:16: listen.cert: TLS needs both cert and key",
		"listen: {key: /c}":                                            "listen.key: TLS needs both",
		"listen: {tokens: [" + token + ", " + token + "]}":             `token "t" is given twice`,
		"listen: {tokens: [{name: t, hash: abc, user: u}]}":            "no SHA-256 in 64 hexadecimal digits",
		"listen: {tokens: [{name: t, user: u}]}":                       "write either hash, or file",
		"listen: {tokens: [{user: u, file: /f}]}":                      "a token needs a name",
		"listen: {tokens: [{name: t, file: /f}]}":                      "whom its jobs run as is missing",
		"listen: {tokens: [{name: t, user: u, file: /f, role: king}]}": `the role "king": write user or operator`,
	} {
		mistaken(t, text, want)
	}
}

const token = "{name: t, hash: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, user: u}"

// TestListening: TCP with a token on this machine alone, or with TLS.
func TestListening(t *testing.T) {
	for _, text := range []string{
		`listen: {address: "127.0.0.1:7077", tokens: [` + token + `]}`,
		`listen: {address: "localhost:7077", tokens: [` + token + `]}`,
		`listen: {address: "[::1]:7077", tokens: [` + token + `]}`,
		`listen: {address: ":7077", cert: /c, key: /k, tokens: [` + token + `]}`,
		`listen: {tokens: [` + token + `]}`,
	} {
		if _, err := parse("c.yaml", []byte(text), root); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTokens: a token is found by what its owner presents, and by nothing else.
func TestTokens(t *testing.T) {
	secret, h := NewToken()
	other, _ := NewToken()
	if secret == other || len(secret) < 30 || strings.Contains(h.String(), secret) {
		t.Errorf("tokens %s, %s, hash %s", secret, other, h)
	}
	line := Token{Name: "x y", Hash: h, User: "alice", Operator: true}.Line()
	c, err := parse("c.yaml", []byte("listen:\n  tokens:\n    "+line+"\n    - "+token+"\n"), alice)
	if err != nil {
		t.Fatal(err)
	}
	if f := found(c.Listen, secret); f == nil || f.Name != "x y" || f.User != "alice" || !f.Operator {
		t.Errorf("%s finds %+v", line, f)
	}
	for _, wrong := range []string{"", other, h.String(), secret + " ", "norn_"} {
		if f := found(c.Listen, wrong); f != nil {
			t.Errorf("%q finds %+v", wrong, f)
		}
	}
}

// TestLoad: files, hashes in files of their own, and what cannot be read.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hash := put("hash", HashOf("hello").String()+"\n")
	good := put("good.yaml", "\ufeffmetrics: false\nlisten: {tokens: [{name: t, user: u, file: "+hash+"}]}\n")
	c, from, err := Load(good)
	if err != nil || from != good || c.Metrics || found(c.Listen, "hello") == nil {
		t.Fatalf("%+v, %s, %v", c, from, err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file",
		dir:                             "is not a file",
		put("bad.yaml", "metrics: 3"):   "bad.yaml:1:10: ",
		put("hashless.yaml", "listen: {tokens: [{name: t, user: u, file: "+good+"}]}"): `token "t": the hash in ` + good + ` cannot be read: this is no SHA-256`,
		put("missing.yaml", "listen: {tokens: [{name: t, user: u, file: /nowhere}]}"):  "cannot be read",
	} {
		if _, _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// TestLoadUsual: the usual file may be missing, another one may not.
func TestLoadUsual(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the usual file of root is that of this machine")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "relative, so it does not count")
	c, from, err := Load("")
	if err != nil || from != "" || c.State != filepath.Join(home, ".local/state/norn") {
		t.Fatalf("%+v, %q, %v", c, from, err)
	}
	path := filepath.Join(home, ".config/norn/norn.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("metrics: false"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, from, err := Load(""); err != nil || from != path || c.Metrics {
		t.Errorf("%+v, %q, %v", c, from, err)
	}
}

// TestOperators: by name and by uid; root and oneself always.
func TestOperators(t *testing.T) {
	c := &Config{Operators: []string{"bob", "4242"}}
	for _, x := range []struct {
		name string
		uid  uint32
		want bool
	}{{"root", 0, true}, {"bob", 999_001, true}, {"carol", 4242, true}, {"carol", 999_001, false}, {"", 999_001, false}, {"me", uint32(os.Geteuid()), true}} {
		if got := c.Operator(x.name, x.uid); got != x.want {
			t.Errorf("%s, %d: %v", x.name, x.uid, got)
		}
	}
}

// FuzzConfig: nothing panics, and what is taken is written and read as it was.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(written(defaults(alice))))
	for _, text := range []string{"devices: 4", "devices: [\"a b\", 1]", "tenants: [{name: a, guarantee: 33.3%, weight: 1e3}]", "policy: maxmin", "estimates: none", "jobs: {grace: 1h1m}", "? a\n: b", "state: |\n  /x", "listen: {tokens: [" + token + "]}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse("fuzz", text, alice)
		if err != nil {
			return
		}
		again, err := parse("again", []byte(written(c)), alice)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%v\n%+v\nbecomes\n%+v\nby\n%s", err, c, again, written(c))
		}
		if tree, err := c.Tree(8 * unit.One); err == nil && tree.Len() != len(c.Tenants)+1 {
			t.Fatalf("%d tenants make a tree of %d", len(c.Tenants), tree.Len())
		}
	})
}

// TestSlots: declared slots of one type or of several, and what the file says of them.
func TestSlots(t *testing.T) {
	for text, want := range map[string][]Slots{
		"4": {{"slot", 4}}, "0": nil, "none": nil, "{big: 2, small: 4}": {{"big", 2}, {"small", 4}},
	} {
		c, err := parse("c.yaml", []byte("devices: "+text), root)
		if err != nil || !reflect.DeepEqual(c.Devices.Slots, want) || c.Devices.Auto {
			t.Errorf("%s: %+v, %v", text, c.Devices, err)
			continue
		}
		if again, err := parse("again", []byte(written(c)), root); err != nil || !reflect.DeepEqual(again.Devices, c.Devices) {
			t.Errorf("%s is written as %s: %v", text, c.Devices, err)
		}
	}
}

// TestDeclared: speeds as policies are told them.
func TestDeclared(t *testing.T) {
	c, err := parse("c.yaml", []byte("speeds: [{type: T4, speed: 0.5}, {type: T4, model: bert, speed: 0.25}]"), root)
	if err != nil {
		t.Fatal(err)
	}
	want := perf.Declared{{Type: "T4"}: 0.5, {Model: "bert", Type: "T4"}: 0.25}
	if !reflect.DeepEqual(c.Declared(), perf.Typed(want)) || new(Config).Declared() != nil {
		t.Errorf("%v", c.Declared())
	}
}

// found is the token of a secret, nil when there is no such one.
func found(l Listen, secret string) *Token {
	at := slices.IndexFunc(l.Tokens, func(t Token) bool { return t.Hash == HashOf(secret) })
	if at < 0 {
		return nil
	}
	return &l.Tokens[at]
}
