package config

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/internal/yamltext"
)

// Token proves over TCP who calls.
type Token struct {
	Name     string
	Hash     Hash   // SHA-256 of the token
	File     string // in which the hash stands; empty: in the configuration
	User     string // whom its jobs run as
	Operator bool
}

// Hash is the SHA-256 of a token.
type Hash [sha256.Size]byte

// HashOf is the hash of a token as its owner presents it.
func HashOf(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// String writes the hash as the file has it.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func parseHash(s string) (h Hash, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("this is no SHA-256 in 64 hexadecimal digits: norn config token NAME makes one")
	}
	copy(h[:], b)
	return h, nil
}

// NewToken makes a token that nobody can guess: the secret for its owner, and its
// hash for the file.
func NewToken() (secret string, h Hash) {
	secret = "norn_" + rand.Text()
	return secret, HashOf(secret)
}

// readToken takes one entry of listen.tokens.
func (l *Listen) readToken(n ast.Node) error {
	var t Token
	role, hashed := "user", false
	err := yamltext.Mapping(n, "a token", yamltext.Keys{
		"name": name(&t.Name),
		"hash": func(n ast.Node) error { hashed = true; return yamltext.Value(&t.Hash, parseHash)(n) },
		"file": yamltext.Value(&t.File, parsePath),
		"user": name(&t.User),
		"role": yamltext.Text(&role),
	})
	if err != nil {
		return err
	}
	t.Operator = role == "operator"
	if err := t.Check(); err != nil {
		return yamltext.Fault(n, "%v", err)
	}
	switch {
	case hashed == (t.File != ""):
		return yamltext.Fault(n, "token %q: write either hash, or file, in which the hash stands", t.Name)
	case role != "user" && !t.Operator:
		return yamltext.Fault(n, "token %q has the role %q: write user or operator", t.Name, role)
	}
	for i := range l.Tokens {
		switch other := &l.Tokens[i]; {
		case other.Name == t.Name:
			return yamltext.Fault(n, "token %q is given twice", t.Name)
		case hashed && other.File == "" && other.Hash == t.Hash:
			return yamltext.Fault(n, "tokens %q and %q have one hash: each needs a token of its own", other.Name, t.Name)
		}
	}
	l.Tokens = append(l.Tokens, t)
	return nil
}

// Check says what is wrong with the token's name and user, if anything.
func (t *Token) Check() error {
	switch {
	case t.Name == "":
		return errors.New("a token needs a name, which says in the file whose it is: write name")
	case t.User == "":
		return fmt.Errorf("token %q: whom its jobs run as is missing: write user", t.Name)
	case !goodName(t.Name) || !goodName(t.User):
		return fmt.Errorf("token %q of %q: names have up to 200 printable signs", t.Name, t.User)
	}
	return nil
}

// CheckFiles says whether the certificate and its key can be used.
func (l *Listen) CheckFiles() error {
	if l.Cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(l.Cert, l.Key); err != nil {
		return fmt.Errorf("listen.cert and listen.key cannot be used: %w", err)
	}
	return nil
}

// readHash reads the hash from the token's file.
func (t *Token) readHash() error {
	if t.File == "" {
		return nil
	}
	text, err := readFile(t.File, 4096)
	if err == nil {
		t.Hash, err = parseHash(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return fmt.Errorf("token %q: the hash in %s cannot be read: %w", t.Name, t.File, err)
	}
	return nil
}

// Line writes the token as an entry of the file.
func (t Token) Line() string {
	role := "user"
	if t.Operator {
		role = "operator"
	}
	proof := "hash: " + yamltext.Quote(t.Hash.String())
	if t.File != "" {
		proof = "file: " + yamltext.Quote(t.File)
	}
	return fmt.Sprintf("- {name: %s, %s, user: %s, role: %s}", yamltext.Quote(t.Name), proof, yamltext.Quote(t.User), role)
}

// parseAddress reads host:port.
func parseAddress(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || n == 0 || !printable(s) || strings.ContainsAny(host, " /") {
		return "", fmt.Errorf("%q: write an address and a port, such as 127.0.0.1:7077 or [::1]:7077", s)
	}
	return s, nil
}

// loopback tells whether an address can be reached from this machine alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
