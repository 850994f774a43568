package gate

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestKeys makes keys, and reads the file again.
func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	var hashes []Hash
	for _, c := range []Client{{Name: "bob", Weight: 0.5}, {Name: "alice", Weight: 1}, {Name: "ops@x", Weight: 1, Operator: true}} {
		key := NewKey()
		hashes = append(hashes, HashOf(key))
		c.Hashes = hashes[len(hashes)-1:]
		if err := AddKey(path, &c); err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(path); strings.Contains(string(text), key) {
			t.Error("the file has the key itself")
		}
		if err := AddKey(path, &c); err == nil || !strings.Contains(err.Error(), "is there twice") {
			t.Errorf("%s is taken a second time: %v", c.Name, err)
		}
	}
	all, err := LoadKeys(path)
	if err != nil || len(all) != 3 || all[0].Name != "alice" || all[1].Weight != 0.5 || !all[2].Operator || all[0].Operator || !slices.Equal(all[0].Hashes, hashes[1:2]) {
		t.Errorf("%+v, %v", all, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o604, 0o620, 0o602, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeys(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file of mode %o is read: %v", mode, err)
		}
	}
	if _, err := LoadKeys(filepath.Dir(path)); err == nil {
		t.Error("a folder is read")
	}
}

// TestKeysOfAFile reads files as people write them, and says what is wrong with others.
func TestKeysOfAFile(t *testing.T) {
	a, b := strings.Repeat("ab", 32), strings.Repeat("0C", 32)
	all, err := ParseKeys("k", []byte("# all\n- name: b\n  hashes: ["+a+", "+b+"]\n  waiting: 7\n- {name: a, weight: 2, hash: "+strings.Repeat("12", 32)+"}\n"))
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[0].Weight != 2 || len(all[1].Hashes) != 2 || all[1].Waiting != 7 {
		t.Errorf("%+v, %v", all, err)
	}
	for text, want := range map[string]string{
		"":                               "there is no client in it",
		"a: b":                           "k:1:2: clients are written as a list",
		"- {name: a}":                    "k:1:3: client \"a\" has no key",
		"- {hash: " + a + "}":            "the name of the client is missing",
		"- {name: a, hash: 12}":          "no SHA-256",
		"- {name: a b, hash: " + a + "}": "letters, digits and",
		"- {name: a, hash: " + a + ", weight: 0}":                    "a weight is a number",
		"- {name: a, hash: " + a + ", weight: nan}":                  "a weight is a number",
		"- {name: a, hash: " + a + ", waiting: 0}":                   "waiting",
		"- {name: a, hash: " + a + ", role: root}":                   "write user or operator",
		"- {name: a, hash: " + a + ", hush: 1}":                      "hash",
		"- {name: a, hash: " + a + "}\n- {name: b, hash: " + a + "}": "k:2:3: clients \"a\" and \"b\" have one key",
		"- {name: a, hash: " + a + "}\n- {name: a, hash: " + b + "}": "there twice",
	} {
		if _, err := ParseKeys("k", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzKeys: no file of keys ends the gate, and what is read can be written and read again.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("- {name: a, weight: 2, hash: " + strings.Repeat("12", 32) + "}\n"))
	f.Add([]byte("- name: b\n  hashes: []\n  role: operator\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := ParseKeys("k", text)
		if err != nil {
			return
		}
		for _, c := range all {
			c.Hashes, c.Waiting = c.Hashes[:1], 0
			again, err := ParseKeys("again", []byte(c.Line()))
			if err != nil || len(again) != 1 || again[0].Line() != c.Line() {
				t.Fatalf("%s: %v", c.Line(), err)
			}
		}
	})
}

// The file of keys is read again when it changes: who is new is let in, who has gone is not, and counters stay. A file that
// cannot be read changes nothing.
func TestReload(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8}, "alice", "bob")
	runs := h.later(t.Context(), "bob", `{"prompt":"a b c","max_tokens":8}`)
	until(t, "bob runs", func() bool { return h.boardOf("bob").Clients[0].Running == 1 })
	waits := h.later(t.Context(), "bob", `{"prompt":"a b c","max_tokens":8}`)
	until(t, "bob waits", func() bool { return h.boardOf("bob").Waiting == 1 })

	h.add("carol:3")
	until(t, "carol is let in", func() bool { return h.get("carol", "/gate/queue").status == 200 })
	if b := h.boardOf("carol"); b.Clients[0].Weight != 3 {
		t.Errorf("%+v", b)
	}
	if err := os.WriteFile(h.path, []byte("- {name: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.reload()
	if a := h.get("carol", "/gate/queue"); a.status != 200 {
		t.Errorf("a file with a mistake has locked out carol: %+v", a)
	}
	again := filepath.Join(filepath.Dir(h.path), "again.yaml")
	text := ""
	for _, name := range []string{"alice", "carol"} {
		c := Client{Name: name, Weight: 1, Hashes: []Hash{HashOf(h.keys[name])}}
		text += c.Line() + "\n"
	}
	if err := os.WriteFile(again, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(again, h.path); err != nil {
		t.Fatal(err)
	}
	if a := <-waits; a.status != 401 || !strings.Contains(a.text, "taken back") {
		t.Errorf("%+v", a)
	}
	if a := h.get("bob", "/gate/queue"); a.status != 401 {
		t.Errorf("%+v", a)
	}
	f.steps(8)
	if a := <-runs; a.status != 200 {
		t.Errorf("what ran has not ended: %+v", a)
	}
	h.add("bob2")
	c := Client{Name: "bob", Weight: 1, Hashes: []Hash{HashOf(h.keys["bob"])}}
	if err := AddKey(h.path, &c); err != nil {
		t.Fatal(err)
	}
	until(t, "bob is let in again", func() bool { return h.get("bob", "/gate/queue").status == 200 })
	if got := *h.boardOf("bob").Clients[0].Counter; got != 3+2*8 {
		t.Errorf("bob comes back with a counter of %v, want 19", got)
	}
}
