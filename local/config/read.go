package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/internal/yamltext"
)

// maxFile is the largest file that is read.
const maxFile = 1 << 20

// Load reads a file. An empty path is that of Path, where a file may be missing:
// then the defaults are in force, and from is empty. It also reads the hashes of
// tokens that stand in files of their own.
func Load(path string) (c *Config, from string, err error) {
	usual := path == ""
	if usual {
		path = Path()
	}
	text, err := readFile(path, maxFile)
	if usual && (path == "" || errors.Is(err, os.ErrNotExist)) {
		c, err = Parse("the default configuration", nil)
		return c, "", err
	}
	if err != nil {
		return nil, path, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	if c, err = Parse(path, text); err != nil {
		return nil, path, err
	}
	for i := range c.Listen.Tokens {
		if err := c.Listen.Tokens[i].readHash(); err != nil {
			return nil, path, fmt.Errorf("%s: %w", path, err)
		}
	}
	return c, path, nil
}

// readFile reads a regular file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path) // before it is opened: a pipe would be waited for
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// Parse reads a configuration; name is what errors call the text. Keys that it
// leaves out have their defaults. It reads no other files.
func Parse(name string, text []byte) (*Config, error) { return parse(name, text, self()) }

func parse(name string, text []byte, who user) (*Config, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: a configuration has at most %d bytes", name, maxFile)
	}
	body, err := yamltext.Parse(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return nil, yamltext.Locate(name, text, err)
	}
	c := defaults(who)
	r := reader{c: c, at: map[string]ast.Node{}}
	if body != nil {
		err = yamltext.Mapping(body, "the configuration", r.keys("", c.entries()))
	}
	if err == nil && r.at["socket"] == nil {
		c.Socket = who.socket(c.State)
	}
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, yamltext.Locate(name, text, err)
	}
	return c, nil
}

// reader reads one file, and knows where what was read stands.
type reader struct {
	c  *Config
	at map[string]ast.Node // values by key, as in listen.address
}

// keys are the setters of entries.
func (r *reader) keys(prefix string, entries []entry) yamltext.Keys {
	known := yamltext.Keys{}
	for _, e := range entries {
		set, path := e.set, prefix+e.key
		if e.inner != nil {
			inner := r.keys(path+".", e.inner)
			set = func(n ast.Node) error { return yamltext.Mapping(n, path, inner) }
		}
		known[e.key] = func(n ast.Node) error {
			r.at[path] = n
			return set(n)
		}
	}
	return known
}

// wrong is an error about a key, with its place where the file has it.
func (r *reader) wrong(key, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if n := r.at[key]; n != nil {
		return yamltext.Fault(n, "%s: %s", key, text)
	}
	return fmt.Errorf("%s: %s", key, text)
}

// check looks at what single values cannot tell.
func (r *reader) check() error {
	c := r.c
	switch {
	case c.State == "":
		return r.wrong("state", "there is no home folder it could lie in: write an absolute path")
	case len(c.Socket) > maxSocket:
		return r.wrong("socket", "%s has more than %d bytes: write a shorter path", c.Socket, maxSocket)
	case c.Disk.Refuse > c.Disk.Reserve:
		return r.wrong("disk.refuse", "it is more than disk.reserve, %s: jobs would be started that are not taken in", yamltext.FormatBytes(c.Disk.Reserve))
	}
	if err := r.checkListen(); err != nil {
		return err
	}
	return r.checkTenants()
}

// checkListen refuses what would give away the machine.
func (r *reader) checkListen() error {
	l := &r.c.Listen
	switch {
	case (l.Cert == "") != (l.Key == ""):
		key := "listen.cert"
		if l.Cert == "" {
			key = "listen.key"
		}
		return r.wrong(key, "TLS needs both cert and key: give the other one too, or neither")
	case l.Address == "":
		return nil
	case len(l.Tokens) == 0:
		return r.wrong("listen.address", "over TCP a token proves who calls, and there is none: make one with norn config token NAME, or leave address out")
	case l.Cert == "" && !loopback(l.Address):
		return r.wrong("listen.address", "%s can be reached from other machines, and without TLS whoever is on the way can read the tokens: give cert and key, or write 127.0.0.1 before the port", l.Address)
	}
	return nil
}
