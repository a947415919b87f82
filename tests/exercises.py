# SPDX-License-Identifier: Apache-2.0
"""Twenty programs with input(), as beginners write them, and what a person types into each."""

EXERCISES = {
    "greeting": ("name = input('What is your name? ')\nprint(f'Hello, {name}!')\n", "Ada\n"),
    "sum of two": ("a = int(input('a: '))\nb = int(input('b: '))\nprint(a + b)\n", "3\n4\n"),
    "guess the number": (
        "secret, tries = 37, 0\n"
        "while True:\n"
        "    guess = int(input('Your guess: '))\n"
        "    tries += 1\n"
        "    if guess < secret:\n"
        "        print('too low')\n"
        "    elif guess > secret:\n"
        "        print('too high')\n"
        "    else:\n"
        "        print('right, after', tries, 'tries')\n"
        "        break\n",
        "50\n25\n37\n",
    ),
    "sum of numbers": (
        "n = int(input())\ntotal = 0\nfor i in range(n):\n    total += float(input(f'number {i + 1}: '))\nprint(total)\n",
        "3\n1.5\n2\n-0.25\n",
    ),
    "fizzbuzz": (
        "n = int(input('up to: '))\n"
        "for i in range(1, n + 1):\n"
        "    print('Fizz' * (i % 3 == 0) + 'Buzz' * (i % 5 == 0) or i)\n",
        "15\n",
    ),
    "calculator": (
        "left, op, right = input('> ').split()\n"
        "left, right = float(left), float(right)\n"
        "print({'+': left + right, '-': left - right, '*': left * right, '/': left / right}[op])\n",
        "6 * 7\n",
    ),
    "multiplication table": (
        "n = int(input('table of: '))\nfor i in range(1, 11):\n    print(f'{i:2} x {n} = {i * n}')\n",
        "7\n",
    ),
    "palindrome": (
        "word = input('word: ').strip().lower()\n"
        "print(word, 'is' if word == word[::-1] else 'is not', 'a palindrome')\n",
        "Rotor\n",
    ),
    "until a blank line": (
        "lines = []\nwhile True:\n    line = input()\n    if line == '':\n        break\n    lines.append(line)\n"
        "print(len(lines), lines)\n",
        "one\ntwo\n\n",
    ),
    "ask again": (
        "while True:\n    try:\n        age = int(input('age: '))\n        break\n    except ValueError as error:\n"
        "        print('try again:', error)\nprint(age + 1)\n",
        "old\n\n41\n",
    ),
    "lines of stdin": (
        "import sys\nfor number, line in enumerate(sys.stdin, 1):\n    print(number, line.rstrip())\n",
        "a\nb b\nno newline",
    ),
    "numbers in a line": ("print(sum(map(int, input().split())))\n", "1 2  3\t4\n"),
    "match menu": (
        "items = []\n"
        "while (choice := input('add, list, quit: ')) != 'quit':\n"
        "    if choice == 'add':\n"
        "        items.append(input('what? '))\n"
        "    elif choice == 'list':\n"
        "        print(items)\n"
        "    else:\n"
        "        print('unknown')\n"
        "print('bye')\n",
        "add\nmilk\nx\nlist\nquit\n",
    ),
    "count words": (
        "import sys\nfrom collections import Counter\n"
        "for word, n in sorted(Counter(sys.stdin.read().split()).items()):\n    print(word, n)\n",
        "the cat the hat\nthe end\n",
    ),
    "grades": (
        "grades = {}\nfor _ in range(int(input('how many? '))):\n    name, grade = input().split(',')\n"
        "    grades[name] = int(grade)\nprint(max(grades, key=grades.get), sum(grades.values()) / len(grades))\n",
        "2\nAda,1\nBob,3\n",
    ),
    "hangman": (
        "word, seen = 'python', set()\n"
        "while set(word) - seen:\n"
        "    print(''.join(c if c in seen else '_' for c in word))\n"
        "    seen.add(input('letter: '))\n"
        "print('done:', word)\n",
        "p\ny\nt\nh\no\nn\n",
    ),
    "leap year": (
        "year = int(input('Year: '))\nprint(year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))\n",
        "2000\n",
    ),
    "temperature": ("print(f\"{float(input('°C: ')) * 9 / 5 + 32:.1f} °F\")\n", "36.6\n"),
    "readline": (
        "import sys\nfirst = sys.stdin.readline()\nrest = sys.stdin.readlines()\nprint(repr(first), rest)\n",
        "ü\n1\r\n2\n",
    ),
    "end of input": (
        "total = 0\ntry:\n    while True:\n        total += int(input())\nexcept EOFError as error:\n"
        "    print('end:', error)\nprint(total)\n",
        "1\n2\n3\n",
    ),
    "error after the end": ("while True:\n    print(int(input('n: ')) ** 2)\n", "2\n3\n"),
}
