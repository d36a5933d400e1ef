"""Word lists that the prompts are composed from."""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("|"))


_SNIPPETS = (
    "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)",
    "def total(prices):\n    result = 0\n    for i in range(len(prices)):\n"
    "        result = result + prices[i]\n    return result",
    "def find(items, wanted):\n    for i in range(len(items)):\n"
    "        if items[i] == wanted:\n            return i\n    return -1",
    "function greet(names) {\n  for (var i = 0; i < names.length; i++) {\n"
    "    console.log('Hello ' + names[i]);\n  }\n}",
    "def average(numbers):\n    return sum(numbers) / len(numbers)",
    "int max(int a, int b) {\n    if (a > b) {\n        return a;\n    }\n    return b;\n}",
    "def reverse(text):\n    out = ''\n    for c in text:\n        out = c + out\n    return out",
    "def count(words):\n    d = {}\n    for w in words:\n        if w in d:\n"
    "            d[w] += 1\n        else:\n            d[w] = 1\n    return d",
    "for i in range(1, 101):\n    if i % 15 == 0:\n        print('FizzBuzz')\n"
    "    elif i % 5 == 0:\n        print('Buzz')\n    elif i % 3 == 0:\n        print('Fizz')",
    "def is_even(n):\n    if n % 2 == 0:\n        return True\n    else:\n        return False",
    "with open('data.txt') as f:\n    lines = f.readlines()\nprint(len(lines))",
    "let sum = 0;\n[1, 2, 3].forEach(x => { sum += x; });\nconsole.log(sum);",
)


WORDS: dict[str, tuple[str, ...]] = {
    "language": _split(
        "Python|Python|Python|JavaScript|TypeScript|C|C++|Java|Go|Rust|Ruby|Kotlin|PHP"
    ),
    "code_job": _split(
        """checks whether a string is a palindrome|computes the n-th Fibonacci number|
        sorts a list of dictionaries by a given key|counts how often each word occurs in a text|
        reads a CSV file and prints the sum of one column|finds the two largest numbers in a list|
        removes the vowels from a string|converts a temperature from Celsius to Fahrenheit|
        checks whether a number is prime|transposes a matrix|flattens a nested list|
        finds the longest common prefix of several strings|computes the factorial of a number|
        rotates a list by k positions|validates an e-mail address|parses a date and returns the
        weekday|groups words that are anagrams of each other|does a binary search in a sorted
        list|downloads a web page and prints its title|computes the median of a list of numbers|
        generates a random password of a given length|converts a Roman numeral to an integer|
        finds the shortest path in a graph|splits a list into chunks of equal size|checks whether
        brackets are balanced|calculates the distance between two points|retries a failing call
        three times|writes a dictionary to a JSON file|removes duplicates from a list and keeps the
        order|simulates the throw of two dice|converts seconds to hours and minutes|computes the
        greatest common divisor of two numbers|reads a log file and counts the errors|draws a
        triangle of stars|traverses a binary tree in order|computes a moving average"""
    ),
    "code_extra": _split(
        "a docstring|type hints|a short test|two examples of its use|comments to each step|"
        "error handling for wrong input|a main function that prints the result|three assertions"
    ),
    "code_class": _split(
        "Stack|Queue|BankAccount|ShoppingCart|Timer|Matrix|LinkedList|Inventory|Counter|"
        "Playlist|PriorityQueue|Rectangle|Student|Library|Thermostat|Graph"
    ),
    "method": _split("add|push|insert|deposit|append|register|start|set_value"),
    "method2": _split("remove|pop|clear|withdraw|total|size|stop|report|find"),
    "table": _split(
        """employees(id, name, department, salary)|products(id, name, price, stock)|
        books(id, title, author, year)|students(id, name, grade, city)|visits(id, patient_id,
        day, fee)|sales(id, product_id, amount, sold_on)|flights(id, origin, destination, price)"""
    ),
    "table2": _split(
        """departments(id, name, floor)|patients(id, name, born)|loans(id, book_id, due_on)|
        suppliers(id, name, city)|reviews(id, product_id, stars)"""
    ),
    "sql_job": _split(
        """lists the ten most expensive rows|counts the rows for each group|shows the average for
        each city|finds all names that occur more than once|returns the newest row for each
        group|joins both tables and sorts by name|sums up the amounts by month"""
    ),
    "snippet": _SNIPPETS,
    "code_change": _split(
        """is shorter|runs faster|handles an empty input|uses a dictionary|uses recursion|uses no
        loop|has better names|raises an error for wrong input|is written in Java|has type hints"""
    ),
    "shell_job": _split(
        """renames all text files in a folder|counts the lines of every Python file|makes a backup
        of a folder|deletes empty folders|shows the five largest files|checks whether a server
        answers|copies all pictures of the last week|compresses old log files"""
    ),
    "pattern": _split(
        """a phone number|a time such as 14:30|a hexadecimal colour|a web address|a postcode with
        five digits|a decimal number|a user name of letters and digits|a version number"""
    ),
    "concept": _split(
        """photosynthesis|inflation|gravity|the water cycle|a black hole|evolution|electricity|
        the immune system|a mortgage|compound interest|democracy|plate tectonics|a vaccine|
        machine learning|the greenhouse effect|an eclipse|a recession|natural selection|
        a volcano|the nervous system|DNA|the internet|a database|blood pressure|fermentation|
        osmosis|a tornado|renewable energy|the stock market|a credit score|a supernova|
        the food chain|an atom|a molecule|magnetism|the ozone layer|a glacier|nuclear fusion|
        insurance|a constitution|a patent|an algorithm|encryption|a neuron|cholesterol|sleep|
        a hurricane|erosion|radar|a lever|friction|sound|a rainbow|the moon's phases|a coral reef|
        jet lag|a microwave oven|a refrigerator|a battery|an aeroplane wing|soap|yeast|the tides"""
    ),
    "concept2": _split(
        """respiration|deflation|magnetic force|a comet|adaptation|static electricity|a loan|
        simple interest|a monarchy|an earthquake|an antibody|statistics|the weather|a star|
        RNA|a spreadsheet|a heart attack|digestion|diffusion|a cyclone|fossil fuel|a bond|
        an ion|a mixture|heat|a river|nuclear fission|savings|a law|a trademark|a program"""
    ),
    "audience": _split(
        """a child of eight|a beginner|a busy manager|my grandmother|a student|a class of
        teenagers|somebody without any background|a new colleague|a tourist"""
    ),
    "length": _split(
        "one paragraph|two paragraphs|three sentences|a few sentences|about 100 words|simple words"
    ),
    "why": _split(
        """is the sky blue|do leaves change their colour in autumn|do we dream|does ice float on
        water|do cats purr|is the sea salty|do onions make us cry|does bread rise|do birds fly
        south in winter|does metal feel colder than wood|do we yawn|does the moon look larger near
        the horizon|do stars twinkle|does iron rust|do mosquito bites itch|is yawning contagious|
        do we need sleep|does popcorn pop|does hot water sometimes make glass crack"""
    ),
    "goal": _split(
        """learn to play the guitar|save money|learn Spanish|eat healthier food|grow tomatoes on a
        balcony|write a novel|lose five kilograms|read more books|learn to swim|sleep better|
        start a small business|build a website|cook for a large family|prepare for a job
        interview|reduce stress|ride a bicycle to work|learn to draw|speak in public|train a
        puppy|travel alone|organise my desk|learn to code|grow herbs|repair an old chair"""
    ),
    "period": _split("one month|three months|a year|two weeks|half a year|one summer"),
    "claim": _split(
        """we use only ten percent of our brain|lightning never strikes twice|goldfish forget
        everything|cold weather causes a cold|coffee makes you shrink|bulls hate red|carrots
        improve eyesight|hair grows faster after shaving|the Great Wall can be seen from space|
        bats are blind|sugar makes children hyperactive|cracking knuckles causes arthritis"""
    ),
    "topic": _split(
        """working from home|electric cars|living in a big city|keeping a dog|public transport|
        online courses|solar panels|a vegetarian diet|social media|school uniforms|self-driving
        cars|living alone|shift work|wind power|learning with tablets|cash|wooden houses"""
    ),
    "decision": _split(
        """buy a used car|adopt a cat|sign a job contract|rent a holiday home|choose a doctor|
        start a garden|join a gym|book a long trip|hire a painter|open a bank account"""
    ),
    "process": _split(
        """making cheese|recycling paper|baking bread|building a house|planting a tree|publishing a
        book|making coffee|brewing tea|applying for a passport|producing steel|an election|
        treating waste water|making glass|producing a film|repairing a flat tyre"""
    ),
    "thing": _split(
        "phone|laptop|bicycle|washing machine|houseplant|car|printer|dog|oven|radiator|cat"
    ),
    "problem": _split(
        """makes a strange noise|is always too warm|does not work in the morning|smells odd|has
        become slow|stops after a few minutes|looks worse every week|does not react"""
    ),
    "name": _split("Tom|Lena|Sam|Maria|Omar|Julia|Ben|Nina|Paul|Sara|Ivan|Mei|Carlos|Emma"),
    "name2": _split("Max|Lucy|Ali|Kate|Leo|Rosa|Finn|Ada|Hugo|Zoe"),
    "goods": _split("apples|books|pencils|tickets|balls|cakes|plants|shirts|bottles|coins|cups"),
    "vehicle": _split("car|train|ship|cyclist|bus|truck|plane|runner"),
    "product": _split("jacket|bicycle|table|phone|lamp|book|chair|camera|watch|ticket"),
    "statement": _split(
        """the sum of two even numbers is even|the square of an odd number is odd|the angles of a
        triangle add up to 180 degrees|the square root of 2 is irrational|there are infinitely many
        primes|the product of two odd numbers is odd|1 + 2 + ... + n equals n(n + 1)/2"""
    ),
    "character": _split(
        """an old sailor|a shy robot|a young baker|a lost penguin|a retired detective|a clockmaker|
        a curious fox|a nervous dragon|a night nurse|a village teacher|a girl with a red kite|
        a tired king|a talking tree|a lonely astronaut|a street musician|a beekeeper|a
        tiny mouse"""
    ),
    "character2": _split(
        """a proud swan|her younger brother|the mayor|an owl|a forgotten friend|a snowman|a tax
        inspector|the moon|a new neighbour|a ghost|a gardener|a stubborn donkey"""
    ),
    "event": _split(
        """finds a door in the forest|receives a letter without a sender|loses a shadow|wakes up in
        another century|must cross the desert|hears music under the floor|wins a strange
        prize|forgets a name|discovers a secret garden|builds a boat|meets a stranger on a
        train|cannot stop laughing|plants a magic seed"""
    ),
    "person": _split("first|third"),
    "count": _split("two|three|four|five"),
    "image": _split(
        """the first snow|an empty theatre|a broken clock|the sea at night|a small garden|an old
        photograph|the smell of bread|a long journey|a summer storm|a train station|autumn leaves|
        a lost key|the stars|a quiet street|a big mistake|a birthday|an old oak|the harbour"""
    ),
    "poem_wish": _split(
        """rhyme|be short and funny|be calm|end with a surprise|not rhyme|use simple words|mention
        a colour|sound like a song"""
    ),
    "place": _split("an island|a town|a school|a planet|a village|a hotel|a country|a city"),
    "rule": _split(
        """everybody walks backwards|time stops at five|nobody owns a clock|it rains music|animals
        can vote|colours are forbidden|people trade with stories|the sun never sets"""
    ),
    "occasion": _split(
        """a wedding|the birthday of a friend|the opening of a museum|a graduation|a farewell at
        work|a sports club's anniversary|a school play|the first day of a new job"""
    ),
    "business": _split(
        """a bicycle shop|a small cafe|a book store|a flower shop|a pet hotel|a travel agency|a
        running club|a toy shop|an ice cream truck|a repair workshop"""
    ),
    "opening": _split(
        """The train had left an hour ago, but nobody on the platform moved.|It was the third time
        that week that the phone rang at midnight.|Grandfather never spoke about the box under his
        bed.|The garden looked the same as ever, except for the chair.|When the snow melted, we
        found the second key.|On the day the river turned green, my sister came home."""
    ),
    "tongue": _split("French|Spanish|German|Italian|Portuguese|Dutch|French|Spanish|German"),
    "text_kind": _split("text|notice|message|letter|note|article|passage|report|e-mail|story"),
    "tone": _split("polite|friendly|formal|simple|cheerful|serious"),
    "foreign": _split(
        """Le magasin est ouvert du lundi au samedi. Nous vous attendons avec plaisir.|Mon frère
        habite à Lyon depuis deux ans et travaille dans une école.|Il fait très froid ce matin,
        prends ton manteau.|Der Zug hat heute zwanzig Minuten Verspätung. Bitte warten Sie auf
        Gleis drei.|Meine Schwester hat gestern einen Kuchen gebacken.|Bitte schließen Sie die
        Fenster, wenn Sie das Büro verlassen.|El restaurante está cerrado los domingos. Puede
        reservar una mesa por teléfono.|Mi abuela vive en un pueblo pequeño cerca del mar.|La
        reunión empieza a las nueve y termina al mediodía.|La biblioteca offre corsi gratuiti per
        i bambini ogni mercoledì.|Ieri abbiamo visitato un vecchio castello vicino al lago.|A loja
        abre às dez horas e fecha às seis.|De winkel is vandaag gesloten wegens een feestdag.|Je
        voudrais savoir à quelle heure part le prochain bus.|Wir haben das Paket leider noch nicht
        erhalten.|Gracias por su mensaje. Le responderemos lo antes posible."""
    ),
    "sentence": _split(
        """The {business_plain} will open again on {day} after the repairs.|{name} and {name2}
        spent the {season} at the lake and came home with {n1} {goods}.|Last year the town had {n4}
        visitors more than the year before.|Please bring the {goods} to the office before
        {day}.|The old bridge was closed because {n1} cracks were found in it.|My neighbour gave
        me {n1} {goods}, although I had asked for none.|Dear {name}, thank you for your letter of
        {day}; we will answer it soon.|The meeting about the new school was moved to {day} at
        {n5} o'clock.|In {season} the river often rises by {n2} metres within a week.|{name} says
        that the {vehicle} was late again and that nobody had been told.|A study with {n3} people
        found that those who walked every day slept better.|The price of a {product} rose by {n1}
        percent, mainly because of higher wages.|We could not find the key, so {name2} climbed
        through the window.|The council decided to plant {n3} trees along the main street.|If the
        {product} does not work, send it back within {n2} weeks.|The children built a small house
        of wood and invited the whole village.|Nobody knew who had painted the door {colour}.|The
        library lends {goods} as well as games, and the course on {day} is free."""
    ),
    "business_plain": _split("museum|bakery|swimming pool|library|cinema|market|theatre|station"),
    "day": _split("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|3 May|12 June|1 October"),
    "season": _split("spring|summer|autumn|winter"),
    "colour": _split("blue|green|yellow|white|black|orange"),
}
"""Choices for each slot of the templates."""
