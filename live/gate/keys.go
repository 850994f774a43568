package gate

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/yamltext"
)

// Client is who may send requests, as the file of keys has it.
type Client struct {
	Name     string
	Hashes   []Hash  // of its keys
	Weight   float64 // of its share; 1 where the file says nothing
	Waiting  int     // most requests of it that wait at once; 0: as Options say
	Operator bool    // it sees all clients, and metrics
}

// Hash is the SHA-256 of a key. Keys have 130 random bits, so that nothing can be found out from it.
type Hash [sha256.Size]byte

// HashOf is the hash of a key as its owner presents it.
func HashOf(key string) Hash { return sha256.Sum256([]byte(key)) }

// String writes the hash as the file has it.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// NewKey makes a key that nobody can guess, for its owner alone.
func NewKey() string { return "norn_" + rand.Text() }

// Limits of a file of keys.
const (
	maxFile    = 4 << 20 // bytes
	maxName    = 100     // letters of the name of a client
	maxWeight  = 1e6
	maxWaiting = 1_000_000
)

// LoadKeys reads a file of keys. It refuses one that other users of the machine may read or change.
func LoadKeys(path string) ([]Client, error) {
	text, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	return ParseKeys(path, text)
}

func readKeys(path string) ([]byte, error) {
	info, err := os.Stat(path) // before it is opened: a pipe would be waited for
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case runtime.GOOS != "windows" && mode.Perm()&0o026 != 0:
		return nil, fmt.Errorf("%s has the mode %04o: others could add keys, or see who has any; chmod 600 it", path, mode.Perm())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// ParseKeys reads the text of a file of keys, which errors call name. The clients come in the order of their names.
func ParseKeys(name string, text []byte) ([]Client, error) {
	body, err := yamltext.Parse(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return nil, yamltext.Locate(name, text, err)
	}
	var all []Client
	names, hashes := map[string]bool{}, map[Hash]string{}
	read := yamltext.List("clients", func(n ast.Node) error {
		c, err := readClient(n)
		if err != nil {
			return err
		}
		if names[c.Name] {
			return yamltext.Fault(n, "client %q is there twice: a client has one entry, with a list of hashes where it has several keys", c.Name)
		}
		names[c.Name] = true
		for _, h := range c.Hashes {
			if other, taken := hashes[h]; taken {
				return yamltext.Fault(n, "clients %q and %q have one key: each needs its own", other, c.Name)
			}
			hashes[h] = c.Name
		}
		all = append(all, c)
		return nil
	})
	if body != nil {
		err = read(body)
	}
	if err == nil && len(all) == 0 {
		err = errors.New("there is no client in it: norn gate key NAME --keys FILE adds one")
	}
	if err != nil {
		return nil, yamltext.Locate(name, text, err)
	}
	slices.SortFunc(all, func(a, b Client) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// readClient takes one entry.
func readClient(n ast.Node) (Client, error) {
	c := Client{Weight: 1}
	role := "user"
	hash := func(n ast.Node) error {
		var h Hash
		err := yamltext.Value(&h, parseHash)(n)
		c.Hashes = append(c.Hashes, h)
		return err
	}
	err := yamltext.Mapping(n, "a client", yamltext.Keys{
		"name":    yamltext.Value(&c.Name, parseName),
		"hash":    hash,
		"hashes":  yamltext.List("hashes", hash),
		"weight":  yamltext.Value(&c.Weight, ParseWeight),
		"waiting": yamltext.Int(&c.Waiting, 1, maxWaiting),
		"role":    yamltext.Text(&role),
	})
	c.Operator = role == "operator"
	switch {
	case err != nil:
		return c, err
	case c.Name == "":
		return c, yamltext.Fault(n, "the name of the client is missing: write name")
	case len(c.Hashes) == 0:
		return c, yamltext.Fault(n, "client %q has no key: write hash, as norn gate key %s prints it", c.Name, c.Name)
	case role != "user" && !c.Operator:
		return c, yamltext.Fault(n, "client %q has the role %q: write user or operator", c.Name, role)
	}
	return c, nil
}

func parseHash(s string) (h Hash, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, errors.New("this is no SHA-256 in 64 hexadecimal digits: norn gate key NAME makes a key, and prints its hash")
	}
	copy(h[:], b)
	return h, nil
}

func parseName(s string) (string, error) {
	if s == "" || len(s) > maxName || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._@") != "" {
		return "", fmt.Errorf("%q: the name of a client has up to %d letters, digits and -._@", s, maxName)
	}
	return s, nil
}

// ParseWeight reads a weight.
func ParseWeight(s string) (float64, error) {
	w, err := strconv.ParseFloat(s, 64)
	if err != nil || !(w > 0) || w > maxWeight || w < 1/maxWeight {
		return 0, fmt.Errorf("%q: a weight is a number from %v to %v, such as 2 or 0.5", s, 1/maxWeight, maxWeight)
	}
	return w, nil
}

// Check says what is wrong with the name and the weight of a client, if anything.
func (c *Client) Check() error {
	if _, err := parseName(c.Name); err != nil {
		return err
	}
	_, err := ParseWeight(strconv.FormatFloat(c.Weight, 'g', -1, 64))
	return err
}

// Line writes a client as an entry of the file.
func (c *Client) Line() string {
	line := fmt.Sprintf("- {name: %s, hash: %s", yamltext.Quote(c.Name), c.Hashes[0])
	if c.Weight != 1 {
		line += ", weight: " + strconv.FormatFloat(c.Weight, 'g', -1, 64)
	}
	if c.Operator {
		line += ", role: operator"
	}
	return line + "}"
}

// AddKey adds a client to a file of keys, which it makes where there is none. The file is replaced as a whole, with the mode
// 600. It fails where the client is there already.
func AddKey(path string, c *Client) error {
	text, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("# Clients of norn gate. Each has a name and the SHA-256 of its key; norn gate key NAME makes one.\n"), nil
	}
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = append(text, c.Line()+"\n"...)
	if _, err := ParseKeys(path, text); err != nil {
		return err
	}
	unfinished := path + fileio.Unfinished // made here, so that it is never open to others
	os.Remove(unfinished)
	f, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	return fileio.CreateWhole(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
