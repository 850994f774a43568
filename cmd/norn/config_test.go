package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/local/config"
)

// configured runs norn config in this process.
func configured(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	top := &cobra.Command{Use: "norn", SilenceUsage: true, SilenceErrors: true}
	top.AddCommand(configCommand())
	strict(top)
	var o, e bytes.Buffer
	top.SetArgs(append([]string{"config"}, args...))
	top.SetOut(&o)
	top.SetErr(&e)
	called, err := top.ExecuteContextC(t.Context())
	code = fate(called, err, &e)
	return o.String(), e.String(), code
}

// TestConfigDefault: what is shown is a file that is in order, and says what is
// in force without one.
func TestConfigDefault(t *testing.T) {
	out, errOut, code := configured(t, "show", "--default")
	if code != 0 || errOut != "" || !strings.Contains(out, "# Unix socket of the API") {
		t.Fatalf("%d, %s\n%s", code, errOut, out)
	}
	path := file(t, "norn.yaml", out)
	again, errOut, code := configured(t, "show", path)
	if code != 0 || again != out || !strings.Contains(errOut, path) {
		t.Errorf("%d, %s\n%s", code, errOut, again)
	}
	values, _, code := configured(t, "check", path)
	if code != 0 || strings.Contains(values, "#") || !strings.Contains(values, "\npolicy: \"fifo(mode=easy)\"\n") {
		t.Errorf("%d\n%s", code, values)
	}
}

// TestConfigCheck: mistakes are told with their line, and end in 1; a wrong
// command line ends in 2.
func TestConfigCheck(t *testing.T) {
	half := file(t, "half.yaml", "devices: 4\nlogs: {keep: 9}\n")
	if out, _, code := configured(t, "check", half); code != 0 || !strings.Contains(out, "devices: 4\n") || !strings.Contains(out, "  keep: 9\n") || !strings.Contains(out, "  bytes: 16MiB\n") {
		t.Errorf("%d\n%s", code, out)
	}
	notCert := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(notCert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check", file(t, "bad.yaml", "metrics: true\npolcy: fifo\n")}, 1, `bad.yaml:2:1: the configuration has no key "polcy"`},
		{[]string{"show", file(t, "bad.yaml", "metrics: 3\n")}, 1, "bad.yaml:1:10: "},
		{[]string{"check", file(t, "tls.yaml", "listen: {cert: "+notCert+", key: "+notCert+"}")}, 1, "listen.cert and listen.key cannot be used"},
		{[]string{"check", "/no/such/file"}, 1, "the configuration cannot be read"},
		{[]string{"check", ""}, 1, "the name of the configuration is empty"},
		{[]string{"check", half, half}, 2, "accepts at most 1 arg"},
		{[]string{"show", "--default", half}, 2, "leave " + half + " out"},
		{[]string{"chek"}, 2, "did you mean check?"},
		{[]string{"token"}, 2, "accepts 1 arg"},
		{[]string{"token", ""}, 2, "a token needs a name"},
		{[]string{"token", "x", "--user", "a\nb"}, 2, "printable"},
	} {
		if _, errOut, code := configured(t, x.args...); code != x.code || !strings.Contains(errOut, x.want) {
			t.Errorf("%v: %d, %s", x.args, code, errOut)
		}
	}
}

// TestConfigToken: the line that is printed lets in whoever has the token.
func TestConfigToken(t *testing.T) {
	out, _, code := configured(t, "token", "the ci", "--user", "alice", "--operator")
	secret, line, two := strings.Cut(out, "\n")
	if code != 0 || !two || strings.Contains(line, secret) {
		t.Fatalf("%d\n%s", code, out)
	}
	sum := sha256.Sum256([]byte(secret))
	if !strings.Contains(line, hex.EncodeToString(sum[:])) {
		t.Errorf("%s does not hold the hash of %s", line, secret)
	}
	c, err := config.Parse("norn.yaml", []byte("listen:\n  address: \"127.0.0.1:7077\"\n  tokens:\n    "+line))
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Listen.Tokens[0]; f.Hash != config.HashOf(secret) || f.Name != "the ci" || f.User != "alice" || !f.Operator {
		t.Errorf("%s is read as %+v", secret, f)
	}
	if other, _, _ := configured(t, "token", "mine"); strings.HasPrefix(other, secret) || !strings.Contains(other, "name: mine") || strings.Contains(other, "operator") {
		t.Errorf("a second token: %s", other)
	}
}
